"""The pre-trainings and fine-tunings behind tables: each made once, whichever rows and tables need it."""

import dataclasses
import functools
import gc
import hashlib
import json
import logging
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kbert.corpus.corpus_files import find_files
from kbert.corpus.records_manifest import is_records
from kbert.experiments.cells import WORST, Cells
from kbert.experiments.downstream import NER, Downstream
from kbert.experiments.paper_tables import kept_every, milestone, needs_milestones
from kbert.experiments.shared_rows import decide_packing, file_name, identify_rows
from kbert.experiments.table import Row, Table
from kbert.files import read_json
from kbert.models.feature_modes import FEATURE_MODES
from kbert.tasks.features.train import FeatureTraining, train_feature_taggers
from kbert.tasks.pretraining.named_settings import complete_settings
from kbert.tasks.pretraining.pretrain import pretrain
from kbert.tasks.pretraining.pretraining_settings import SEQUENCE_LENGTH
from kbert.training.history import History, training_minutes
from kbert.training.intervals import log_interval
from kbert.training.made_by import INPUTS
from kbert.training.processor_name import processor_name
from kbert.training.run_directory import METRICS
from kbert.weights.load import load_pretrained

_LOGGER = logging.getLogger("kbert")
_SCORES = ("mlm_accuracy", "mlm_perplexity", "mlm_cross_entropy", "nsp_accuracy")


class Study:
    """Runs that tables share, in one directory; the same call resumes after a kill.

    A pre-training is a folder named after its row and the hash of all that decides it: finished ones are read,
    unfinished ones resume, and other settings have other folders. Of fine-tunings only the scores are kept (`Cells`).

    Args:
        source: what `kbert.pretrain` trains on: records, or text with `vocabulary` among `pretraining`.
        output: directory of all runs.
        tasks: `Downstream` objects, the columns.
        pretraining: arguments of `kbert.pretrain` that all rows share: size, steps or hours, settings ...
        seeds: of the fine-tunings.
        rates: learning rates of the fine-tunings; each row and column has the one that is best on dev by the mean.
        finetuning: further options of `kbert.finetune` that all rows share: epochs, batch_size ...
        feature_training: `FeatureTraining` of the feature-based columns, without its seed.
        recipe: the program that manifests name.

    Attributes:
        records: folder of a run, or file of a fine-tuning → when it was started and with which versions, of those that
            were made or read; `kbert.experiments.run_table` empties it before each table.

    Raises:
        ValueError: no seeds or rates, or columns of one name.
        NotADirectoryError: a file where the runs are to go.

    Example::

        study = Study("records", "runs/ablations", tasks, pretraining={"size": "tiny", "steps": 20_000})
        study.scores(Row(name="No NSP", pretraining={"next_sentence": False}), tasks[0])  # {5e-5: [70.1]}
    """

    def __init__(
        self,
        source,
        output,
        tasks: Sequence[Downstream],
        *,
        pretraining: Mapping[str, Any],
        seeds: Sequence[int] = (0,),
        rates: Sequence[float] = (5e-5,),
        finetuning: Mapping[str, Any] | None = None,
        feature_training: FeatureTraining | None = None,
        recipe: str = "kbert.experiments",
    ):
        for name, values in (("seeds", seeds), ("rates", rates), ("tasks", [task.name for task in tasks])):
            if not values or len(set(values)) < len(values):
                raise ValueError(f"Study: expected at least one of `{name}`, all different. Received: {list(values)}")
        self.source, self.output, self.tasks = source, pathlib.Path(output), list(tasks)
        self.pretraining, self.finetuning = dict(pretraining), dict(finetuning or {})
        self.seeds, self.rates = list(seeds), list(rates)
        self.feature_training, self.recipe = feature_training or FeatureTraining(), recipe
        self.records: dict[str | pathlib.Path, dict] = {}
        self._cells = Cells(self.output / "finetuning", recipe)

    @functools.cached_property
    def packed(self) -> bool:
        """Whether the rows of all pre-trainings are packed: decided once, for what they share."""
        given = self.pretraining.get("packed")
        return decide_packing(self.source, self.pretraining) if given is None else given

    @functools.cached_property
    def _content(self):
        return identify_rows(self.source, self.pretraining)

    def settings(self) -> dict:
        """What the study's figures depend on besides the rows, as JSON; files by their names."""
        named = {"source": [pathlib.Path(path).name for path in _as_list(self.source)]}
        decided = complete_settings(self.pretraining.get("settings"), self.pretraining) | {"packed": self.packed}
        if not (self.pretraining | decided).get("phases"):
            decided.setdefault("sequence_length", self.pretraining.get("sequence_length") or SEQUENCE_LENGTH)
        pretraining = {name: file_name(value) for name, value in (self.pretraining | decided).items()}
        examples = {task.name: {"train": len(task.train), "dev": len(task.dev)} for task in self.tasks}
        shared = {"seeds": self.seeds, "learning_rates": self.rates, "finetuning": self.finetuning}
        features = dataclasses.asdict(self.feature_training)
        del features["seed"]  # those of `seeds`
        processor, cores = processor_name()
        shared |= {"feature_training": features, "processor": processor, "cores": cores}
        return json.loads(json.dumps(named | {"pretraining": pretraining, "examples": examples} | shared))

    def columns(self, table: Table) -> dict[str, tuple[Downstream, str | None]]:
        """The columns of a table: name → (task, feature mode or None for fine-tuning).

        Raises:
            ValueError: a table of features without the task of tagging words.
        """
        columns = {task.name: (task, None) for task in self.tasks}
        on_features = any(row.feature_mode for row in table.rows)
        if (on_features or table.feature_columns) and NER not in columns:
            raise ValueError(f"{table.name}: expected tagged words among the tasks. Received: {list(columns)}")
        columns = {NER: columns[NER]} if on_features else columns
        return columns | {f"{NER} {mode}": (columns[NER][0], mode) for mode in table.feature_columns}

    def check(self, table: Table) -> None:
        """Raises what would otherwise end `kbert.experiments.run_table` after hours: before anything is written.

        Raises:
            FileNotFoundError, ValueError: no such text; a table that does not go with the tasks, or with a run by the
                clock.
        """
        self.columns(table)
        for row in table.rows:
            if row.share < 1.0:
                self._step(row)
        if not (isinstance(self.source, str | os.PathLike) and is_records(self.source)):
            find_files(self.source)
        steps = self.pretraining.get("steps")
        if steps is not None and any(needs_milestones(self._own(row)) for row in table.rows):
            kept_every(steps)

    def pretrained(self, row: Row) -> pathlib.Path:
        """The finished pre-training of a row, made if it is not there.

        Raises:
            As `kbert.pretrain`.
        """
        arguments = self._arguments(row)
        path = self.output / "pretraining" / _folder(_describe(self._own(row)), self._identity(row, share=1.0))
        if not (path / METRICS).exists():
            _LOGGER.info("pre-training for %s: %s", row.name, path.name)
            gc.collect()  # models are in reference cycles; free the last one before the next is built
            pretrain(self.source, output=path, **_checkpoints(arguments, self._own(row)))
        self._note(path)
        return path

    def source_of(self, row: Row) -> str:
        """The model that a row fine-tunes, as `kbert.load_pretrained` takes it.

        Raises:
            ValueError: a share of a run by the clock, whose number of steps is not known beforehand.
        """
        path = self.pretrained(row)
        return str(path) if row.share == 1.0 else f"{path}@{self._step(row)}"

    def describe_pretraining(self, row: Row) -> dict:
        """Steps, minutes, epochs and held-out scores of a row's pre-training; of a share of it from its history."""
        path = self.pretrained(row)
        metrics = read_json(path / METRICS)
        step = metrics["steps"] if row.share == 1.0 else self._step(row)
        records = History(path / "history.jsonl", step, writes=False).records
        found = {"parameters": metrics["parameters"], "minutes": training_minutes(records), "steps": step}
        if metrics.get("epochs") is not None:
            found["epochs"] = metrics["epochs"] * step / metrics["steps"]
        if row.share == 1.0:
            return found | {name: metrics[name] for name in _SCORES if name in metrics}
        for record in records:
            found |= {name: record[f"val_{name}"] for name in _SCORES if f"val_{name}" in record}
        return found

    def scores(self, row: Row, task: Downstream, feature_mode: str | None = None) -> dict[float, list[float]]:
        """Learning rate → the figure of each seed, in percent; runs that are not there are made.

        Args:
            row: of a table.
            task: the column.
            feature_mode: tag words on features of a frozen encoder instead of fine-tuning.

        Raises:
            FloatingPointError: some seed diverged with every learning rate; rates with which one did are left out.
            As `kbert.finetune`.
        """
        if feature_mode is not None:
            rate = self.feature_training.learning_rate
            return {rate: [self._on_features(row, task, feature_mode, seed) for seed in self.seeds]}
        found = {rate: [self._finetuned(row, task, rate, seed) for seed in self.seeds] for rate in self.rates}
        if all(WORST in values for values in found.values()):
            raise FloatingPointError(
                f"{row.name}, {task.name}: expected learning rates with which all seeds train. Received: {self.rates}"
            )
        return {rate: values for rate, values in found.items() if WORST not in values}

    def _finetuned(self, row, task, rate, seed):
        options = self._finetuning(task) | dict(row.finetuning) | {"learning_rate": rate, "seed": seed}
        found = self._cells.score(self.source_of(row), task, options)
        self.records[found["file"]] = {name: found[name] for name in ("recorded", "versions")}
        return found["percent"]

    def _on_features(self, row, task, mode, seed):
        if mode not in FEATURE_MODES or task.task.name != "tagging":
            raise ValueError(
                f"Study: features are for tagging, in one of the modes {FEATURE_MODES}. Received: {task.name}, {mode!r}"
            )
        options = vars(self.feature_training) | {"seed": seed}
        length = self._finetuning(task).get("sequence_length") or 128
        encoded = self._identity(row) | {"examples": task.settings(), "sequence_length": length}
        shared = self.output / "features" / _folder(_describe(self._own(row)), encoded)
        path = shared / _folder(f"seed-{seed}", options)
        if not (path / mode / METRICS).exists():
            source = self.source_of(row)
            gc.collect()
            encoder = load_pretrained(source, "encoder", outputs=("hidden_states",), sequence_length=length)
            train_feature_taggers(
                encoder,
                {"train": task.train, "dev": task.dev},
                task.task.settings(task.train)["labels"],
                path,
                (mode,),
                sequence_length=length,
                settings={**encoded, "options": options},
                inputs={"init": source},
                recipe=self.recipe,
                training=FeatureTraining(**options),
                features=shared / "features",
            )
        self._note(path / mode)
        return task.percent(read_json(path / mode / METRICS)["dev"])

    def _finetuning(self, task):
        """The shared options; what a task needs stands where nothing else was given."""
        given = {name: value for name, value in self.finetuning.items() if value is not None}
        return self.finetuning | dict(task.options) | given

    def _note(self, path):
        record = read_json(path / INPUTS)
        self.records[path] = {name: record[name] for name in ("recorded", "versions")}

    def _step(self, row):
        if self.pretraining.get("steps") is None:
            raise ValueError(f"Study: {row.name!r} is a share of a run of `steps`. Received: a run of hours")
        return milestone(self.pretraining["steps"], row.share)

    def _own(self, row):
        """What a row's pre-training does not share with the others."""
        return {name: value for name, value in row.pretraining.items() if self.pretraining.get(name) != value}

    def _arguments(self, row):
        return self.pretraining | {"packed": self.packed} | dict(row.pretraining)

    def _identity(self, row, share=None):
        """What decides the model that a row starts from, or with a share of 1 its whole pre-training."""
        share = row.share if share is None else share
        arguments = {name: _plain(self._content.get(name, ""), value) for name, value in self._arguments(row).items()}
        identity = {"source": [str(path) for path in _as_list(self.source)], "pretraining": arguments}
        identity |= {"content": self._content}
        return identity if share == 1.0 else identity | {"share": share}


def _checkpoints(arguments, own):
    """The arguments of a run with checkpoints that figure 5 can read, where it will."""
    if arguments.get("steps") is None or not needs_milestones(own):
        return arguments
    every = kept_every(arguments["steps"])
    most = arguments.get("checkpoint_every", 500)
    return arguments | {"checkpoint_every": log_interval(every, most), "keep_every": every}


def _describe(arguments):
    """Arguments of a row as part of a name."""
    parts = [
        f"{name}-{pathlib.Path(value).name if name == 'names' else value}" for name, value in sorted(arguments.items())
    ]
    return re.sub(r"[^\w.-]+", "_", "-".join(parts).lower()) or "base"


def _folder(name, identity):
    text = json.dumps(identity, sort_keys=True, default=str)
    return f"{name[:100]}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _as_list(source):
    return list(source) if isinstance(source, list | tuple) else [source]


def _plain(content, value):
    """An argument as JSON: paths as text, vocabularies and models in memory as their content."""
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    return content or value
