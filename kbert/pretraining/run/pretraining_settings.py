"""The settings of a pre-training: completed, checked, and the same when it is resumed."""

import copy
import dataclasses
import glob
import math
import os
import pathlib
from typing import Any

from kbert.checks import shown
from kbert.config import default_max_predictions, default_num_parts
from kbert.corpus.corpus_files import find_files, is_tfrecords
from kbert.corpus.documents import DocumentList, prose_sentences, texts_as_documents
from kbert.corpus.held_out import HELD_OUT
from kbert.corpus.records_manifest import is_records
from kbert.options import Arguments, to_json
from kbert.pretraining.run.phases import Phase, Stage, count_steps, plan_stages, read_phases, read_ramp
from kbert.pretraining.run.pretrain import Masking, Objective, Rows, pretrain
from kbert.pretraining.run.stored_batches import MANIFEST, is_batches, read_manifest
from kbert.tasks.in_memory import column_names, table_of
from kbert.tasks.table import check_texts
from kbert.training.made_by import identify_model, identify_source, identify_vocabulary
from kbert.weights.source import local_source

_WARMUP_PROPORTION, _WARMUP = 0.1, 10_000  # where nothing is given: of the run, and at most these steps
SEQUENCE_LENGTH = 128
_NOT_OF_MASKS = ("max_predictions", "dupe_factor")  # fields of `Masking` that left-to-right models have, too
_OF_BATCHES = ("vocabulary", "lowercase", "hours", "phases", "batch_size", "sequence_length", "batch_size_ramp")
_OF_BATCHES += tuple(field.name for group in (Masking, Objective, Rows) for field in dataclasses.fields(group))
_OF_NEW_WEIGHTS = ("size", "position_embedding", "position_initializer", "initializer_stddev")
DEFAULTS: dict[str, Any] = {
    "batch_size": 32,
    "learning_rate": 1e-4,
    "schedule": "linear",
    "bias_correction": False,
}
NAMED_SETTINGS: dict[str, dict[str, Any]] = {
    # Devlin et al. 2018, section 3.1 and appendix A.2: 90 % of the steps with 128 tokens, 1 % of warm-up.
    "paper": {
        "batch_size": 256,
        "learning_rate": 1e-4,
        "phases": ((128, 0.9), (512, 0.1)),
        "warmup_proportion": 0.01,
        "dropout": 0.1,
        "bias_correction": False,
    },
    # Small models for hours on one machine: many small updates, new weights as wide as base's are at its width,
    # positions that tell distances from the start and a rate that stays at its peak end the plateau at token
    # frequencies sooner (docs/pretraining.md).
    "small-budget": {
        "batch_size": 16,
        "learning_rate": 1e-3,
        "schedule": "stable",
        "sequence_length": 128,
        "warmup_proportion": 0.05,
        "dropout": 0.0,
        "bias_correction": True,
        "initializer_stddev": "scaled",
        "position_initializer": "sinusoidal",
    },
}
_INSTEAD = {"phases": ("sequence_length",), "sequence_length": ("phases",), "warmup_proportion": ("warmup_steps",)}


class PretrainingSettings:
    """The arguments of `kbert.pretrain` that decide its result, complete: each an attribute by its own name.

    Where several phases are given, `sequence_length` is the longest of theirs; `batches` is the manifest of stored
    batches, or None.
    """

    def __init__(self, asked: Arguments, source: Any):
        fields = asked.flat(with_passing=False) | {"corpus_or_records": source}
        self._names = tuple(fields)
        self.batches = read_manifest(source) if is_batches(source) else None
        if self.batches is not None:
            fields |= _decided(self.batches, fields)
        vars(self).update(fields)
        self._check_objective()
        named = complete_settings(self.settings, fields)
        if self.init is not None:  # a model that is given has its own
            not_its = _OF_NEW_WEIGHTS if isinstance(self.init, str | os.PathLike) else (*_OF_NEW_WEIGHTS, "dropout")
            named = {name: value for name, value in named.items() if name not in not_its}
        if self.position_embedding == "sinusoidal":
            named.pop("position_initializer", None)
        vars(self).update(named)
        self._complete_phases()
        self._complete_warmup()
        self._complete_ramp()
        self._check_combinations()

    @property
    def source(self) -> Any:
        """What is read: paths, or a `DocumentList`."""
        return self.corpus_or_records

    def _check_either(self, name: str, other: str) -> None:
        values = [vars(self)[name], vars(self)[other]]
        if all(value is not None and value is not False for value in values):
            received = f"{name}={values[0]!r} and {other}={values[1]!r}"
            raise ValueError(f"pretrain: expected either `{name}` or `{other}`. Received: {received}")

    def _complete_phases(self):
        if self.phases is None:
            self.sequence_length = self.sequence_length or SEQUENCE_LENGTH
            self.max_predictions = self.max_predictions or self._default_predictions(self.sequence_length)
            return
        phases = read_phases(self.phases, self.batch_size, self.max_predictions, self._default_predictions)
        longest = max(phase.sequence_length for phase in phases)
        if self.sequence_length not in (None, longest):  # settings.json, which can be a configuration, has the longest
            raise ValueError(
                f"pretrain: `phases` have sequence lengths. Received: sequence_length={self.sequence_length} as well"
            )
        self.phases = phases
        self.sequence_length = longest

    def _default_predictions(self, length):
        return default_max_predictions(length, self.mask_rate, self.left_to_right)

    def _check_objective(self):
        """What is predicted, and from which rows."""
        defaults = {field.name: field.default for field in dataclasses.fields(Masking)}
        masking = {name: vars(self)[name] for name in defaults if name not in _NOT_OF_MASKS}
        masking = {name: value for name, value in masking.items() if value != defaults[name]}
        if self.left_to_right and masking:
            raise ValueError(
                f"pretrain: `left_to_right` predicts every token and masks none. Received: {masking} as well"
            )
        if self.random_next_rate != Objective().random_next_rate and not self.next_sentence:
            raise ValueError(
                "pretrain: `random_next_rate` is for next sentence prediction. "
                f"Received: {self.random_next_rate} and next_sentence={self.next_sentence}"
            )
        if self.fill_rows and self.packed is False:
            raise ValueError("pretrain: `fill_rows` is for packed rows. Received: packed=False as well")

    def _complete_warmup(self):
        """Checks the length of the run, and gives it a warm-up."""
        if self.steps is None and self.hours is None:
            raise ValueError("pretrain: expected either `steps` or `hours`. Received: neither")
        self._check_either("warmup_steps", "warmup_proportion")
        if self.hours is not None:
            if self.warmup_steps is not None:
                raise ValueError(
                    "pretrain: a run of `hours` takes `warmup_proportion`, a fraction of its time. "
                    f"Received: warmup_steps={self.warmup_steps}"
                )
            if self.warmup_proportion is None:
                self.warmup_proportion = _WARMUP_PROPORTION
        if self.steps is None:  # until they are counted
            return
        if self.warmup_steps is None:
            # Without bias correction the first hundreds of updates are several times too large: after too short a
            # warm-up the run stays on the plateau of token frequencies (docs/maintainers/log.md).
            self.warmup_steps = min(_WARMUP, math.ceil(self.steps * _WARMUP_PROPORTION))
            if self.warmup_proportion is not None:
                self.warmup_steps = max(1, math.ceil(self.steps * self.warmup_proportion))
            if self.hours is None:
                self.warmup_proportion = None  # with these steps, not the fraction, a run can be extended
        if self.warmup_steps > self.steps:
            raise ValueError(
                f"pretrain: `warmup_steps` must be at most `steps`. Received: {self.warmup_steps} of {self.steps}"
            )
        if self.steps % self.steps_per_execution:
            raise ValueError(
                "pretrain: `steps` must be a multiple of `steps_per_execution`. "
                f"Received: {self.steps} and {self.steps_per_execution}"
            )

    def _complete_ramp(self):
        self.batch_size_ramp = read_ramp(self.batch_size_ramp)
        sizes = {stage.batch_size for stage in self.stages()}
        if self.batch_size_ramp is not None and self.batch_size_ramp[0] >= max(sizes):
            raise ValueError(
                "pretrain: `batch_size_ramp` must begin below the batch size. "
                f"Received: {self.batch_size_ramp[0]}, of {max(sizes)}"
            )
        if self.steps is not None:
            count_steps(self.stages(), self.steps, self.steps_per_execution)  # an error if a phase has none

    @property
    def num_parts(self) -> int:
        """K of packed rows, the same for all phases."""
        return self.batches["num_parts"] if self.batches else default_num_parts(self.sequence_length)

    def with_steps(self, steps: int) -> "PretrainingSettings":
        """The same settings with the steps that there is time for in `hours`."""
        decided = copy.copy(self)
        decided.steps = steps
        decided._complete_warmup()
        decided._complete_ramp()
        return decided

    def with_packing(self, packed: bool) -> "PretrainingSettings":
        """The same settings with `packed` decided."""
        decided = copy.copy(self)
        decided.packed = packed
        return decided

    def all_phases(self) -> tuple[Phase, ...]:
        """The phases of the run, in order; without `phases` it is one."""
        return self.phases or (Phase(self.sequence_length, 1.0, self.batch_size, self.max_predictions),)

    def stages(self) -> list[Stage]:
        """The parts of the run, in order."""
        return plan_stages(self.all_phases(), self.batch_size_ramp)

    def _check_combinations(self):
        if self.vocabulary is None and self.init is None and not self.reads_records and self.batches is None:
            raise ValueError("pretrain: a corpus of text needs `vocabulary` (kbert vocabulary makes one) or `init`.")
        if self.vocabulary is not None and self.reads_records:
            raise ValueError("pretrain: records have a vocabulary of their own. Received: `vocabulary` as well")
        if self.vocabulary is not None and isinstance(self.init, str | os.PathLike):
            raise ValueError("pretrain: `init` has a vocabulary of its own. Received: `vocabulary` as well")
        if self.batches is None and self.held_out is None and not self.reads_records:
            self.held_out = HELD_OUT
        elif self.held_out is not None and self.reads_records:
            raise ValueError(
                "pretrain: records have held-out documents of their own (`held_out` of kbert.corpus.write_records). "
                f"Received: held_out={self.held_out}"
            )
        if not self.lowercase and not isinstance(self.vocabulary, str | os.PathLike | list | tuple):
            raise ValueError(
                "pretrain: `lowercase` goes with a `vocabulary` file: tokenizers, `init` and records have a "
                "setting of their own. Received: lowercase=False"
            )
        self._check_new_weights()

    def _check_new_weights(self):
        new = {name: vars(self)[name] for name in _OF_NEW_WEIGHTS if vars(self)[name] is not None}
        if isinstance(self.init, str | os.PathLike):
            new.pop("size", None)  # it grows to this size
        if self.init is not None and new:
            raise ValueError(f"pretrain: `init` has an architecture and weights of its own. Received: {new} as well")
        if self.position_embedding == "sinusoidal" and self.position_initializer is not None:
            raise ValueError(
                "pretrain: `position_initializer` is of learned positions. Received: "
                f"{self.position_initializer!r} and position_embedding='sinusoidal'"
            )

    @property
    def reads_records(self) -> bool:
        """Whether `source` is a directory of records."""
        return is_records(self.source)

    @property
    def reads_text(self) -> bool:
        """Whether `source` is text, in files or in memory, of which the run makes records."""
        return self.batches is None and not self.reads_records and not is_tfrecords(self.source)

    def to_dict(self) -> dict:
        """The settings in JSON form; objects are identified by the hash of their content."""
        fields = {name: vars(self)[name] for name in self._names}
        if self.hours is not None:
            fields["warmup_steps"] = None  # the proportion decides
        identified = {
            "corpus_or_records": identify_source(self.source),
            "vocabulary": identify_vocabulary(self.vocabulary),
            "init": identify_model(self.init),
        }
        return to_json(fields | identified)

    def inputs(self, output: str | os.PathLike) -> dict:
        """The files that the run reads, by argument, as `open_run` takes them; those in its `output` do not count."""
        inputs = {"vocabulary": self.vocabulary, "init": self.init, "names": self.names}
        inputs = {name: value for name, value in inputs.items() if isinstance(value, str | os.PathLike)}
        if "init" in inputs:
            inputs["init"] = local_source(self.init) or self.init
        if self.batches is not None:
            return {"corpus_or_records": pathlib.Path(self.source) / MANIFEST} | inputs
        if isinstance(self.source, DocumentList):
            return inputs
        files = self.source if self.reads_records else find_files(self.source, self.reads_text, output)
        return {"corpus_or_records": files} | inputs


def _decided(batches, fields):
    """What stored batches decide; ValueError for arguments that would have to change them."""
    if batches.get("left_to_right"):
        raise ValueError("pretrain: expected batches with masked tokens. Received: batches with left_to_right=True")
    stored = sum(file["batches"] for file in batches["files"] if file["kind"] == "train")
    steps = stored if fields["steps"] is None else fields["steps"]
    if steps > stored:
        raise ValueError(f"pretrain: `steps` must be from 1 to {stored}, the number of batches. Received: {steps}")
    decided = {
        "batch_size": batches["batch_size"],
        "sequence_length": batches["sequence_length"],
        "max_predictions": batches["arrays"]["inputs/mask_positions"]["shape"][1],
        "next_sentence": "labels/nsp_logits" in batches["arrays"],
        "packed": batches["num_parts"] is not None,
    }
    defaults = pretrain.arguments(fields["corpus_or_records"]).flat(with_passing=False)
    names = [name for name in _OF_BATCHES if name in fields]
    if other := {name: fields[name] for name in names if fields[name] not in (defaults[name], decided.get(name))}:
        raise ValueError(f"pretrain: batches were drawn and masked when they were written. Received: {other} as well")
    return decided | {"steps": steps}


def complete_settings(name: str | None, given: dict) -> dict:
    """Values for what is not given (None), of the settings of this name, else of the defaults."""
    if name is not None and name not in NAMED_SETTINGS:
        raise ValueError(f"pretrain: `settings` must be one of {tuple(NAMED_SETTINGS)}. Received: {name!r}")
    return {
        field: value
        for field, value in (DEFAULTS | NAMED_SETTINGS.get(name, {})).items()
        if all(given.get(other) is None for other in (field, *_INSTEAD.get(field, ())))
    }


def corpus_source(corpus: Any) -> Any:
    """Paths as they are, and documents in memory as a `DocumentList`."""
    if isinstance(corpus, str | os.PathLike):
        return corpus
    if column_names(corpus) or hasattr(corpus, "element_spec"):
        table = table_of(corpus, ["text"])
        check_texts(table, ["text"])
        return DocumentList(map(prose_sentences, table["text"]))
    if not isinstance(corpus, list | tuple):
        raise TypeError(
            "pretrain: `corpus_or_records` must be path(s), a list of documents (lists of sentences), or rows with a "
            f"column `text`. Received: {type(corpus).__name__}"
        )
    if len(corpus) == 1 and isinstance(corpus[0], str | os.PathLike) and os.path.isdir(corpus[0]):
        return corpus[0]  # of records, as on the command line
    if not all(isinstance(item, str | os.PathLike) for item in corpus):
        return DocumentList(corpus)
    return texts_as_documents(corpus)


def check_paths(corpus: Any) -> None:
    """Raises ValueError if a list of strings has no path and no pattern: text is probably meant."""
    if not isinstance(corpus, list | tuple) or not corpus:
        return
    if not any(os.path.exists(path) or glob.has_magic(os.fspath(path)) for path in corpus):
        raise ValueError(
            f"No file matches {shown(os.fspath(corpus[0]))}. Give paths of text files, glob patterns, or documents "
            'in memory: a list of documents, each a list of sentences, such as [["One.", "Two."], ["Another text."]]'
        )
