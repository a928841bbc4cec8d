"""The settings of a pre-training, which must be the same when it is resumed."""

import dataclasses
import hashlib
import math
import os

from kbert.corpus.records import vocabulary_hash
from kbert.corpus.records_manifest import is_records
from kbert.text.tokenizer import BertTokenizer

SCHEDULES = ("linear", "constant")
_COUNTS = ("steps", "batch_size", "warmup_steps", "sequence_length", "max_predictions", "evaluation_batches")
_WARMUP = 10_000  # steps, at most, where nothing is given


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingSettings:
    """The arguments of `kbert.pretrain` that decide its result, checked and complete.

    Raises:
        ValueError: a value out of range, or arguments that exclude each other.
    """

    source: object
    vocabulary: object
    lowercase: bool
    size: str | None
    init: object
    steps: int
    batch_size: int
    learning_rate: float
    warmup_steps: int | None
    schedule: str
    sequence_length: int
    max_predictions: int | None
    whole_word: bool
    next_sentence: bool
    left_to_right: bool
    dropout: float | None
    held_out: float
    evaluation_batches: int
    seed: int
    strategy: str
    logical_cpus: int | None
    precision: str

    def __post_init__(self):
        if self.max_predictions is None:  # 20 of 128 tokens and 80 of 512, as the original
            object.__setattr__(self, "max_predictions", math.ceil(self.sequence_length * 20 / 128))
        if self.warmup_steps is None:
            # Without bias correction the first hundreds of updates are several times too large: after too short a
            # warm-up the run stays on the plateau of token frequencies (docs/log.md).
            object.__setattr__(self, "warmup_steps", min(_WARMUP, math.ceil(self.steps / 10)))
        for name in _COUNTS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"pretrain: `{name}` must be an integer of at least 1. Received: {value!r}")
        if self.warmup_steps > self.steps:
            raise ValueError(
                f"pretrain: `warmup_steps` must be at most `steps`. Received: {self.warmup_steps} of {self.steps}"
            )
        if self.schedule not in SCHEDULES:
            raise ValueError(f"pretrain: `schedule` must be one of {SCHEDULES}. Received: {self.schedule!r}")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"pretrain: `learning_rate` must be above 0. Received: {self.learning_rate!r}")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise ValueError(f"pretrain: `dropout` must be in [0, 1). Received: {self.dropout!r}")
        self._check_combinations()

    def _check_combinations(self):
        if self.vocabulary is None and self.init is None and not self.reads_records:
            raise ValueError(
                "pretrain: a corpus of text needs `vocabulary` (recipes/learn_vocabulary.py makes one) or `init`."
            )
        if self.vocabulary is not None and self.reads_records:
            raise ValueError("pretrain: records have a vocabulary of their own. Received: `vocabulary` as well")
        if self.vocabulary is not None and isinstance(self.init, str | os.PathLike):
            raise ValueError("pretrain: `init` has a vocabulary of its own. Received: `vocabulary` as well")
        if not self.lowercase and not isinstance(self.vocabulary, str | os.PathLike | list | tuple):
            raise ValueError(
                "pretrain: `lowercase` goes with a `vocabulary` file: tokenizers, `init` and records have a "
                "setting of their own. Received: lowercase=False"
            )
        if self.init is not None and (self.size is not None or self.left_to_right):
            raise ValueError(
                "pretrain: `init` has an architecture of its own. "
                f"Received: size={self.size!r}, left_to_right={self.left_to_right!r} as well"
            )

    @property
    def reads_records(self) -> bool:
        """Whether `source` is a directory of records."""
        return isinstance(self.source, str | os.PathLike) and is_records(self.source)

    def to_dict(self) -> dict:
        """The settings in JSON form; objects are identified by the hash of their content."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        source, vocabulary, init = (fields.pop(name) for name in ("source", "vocabulary", "init"))
        patterns = [source] if isinstance(source, str | os.PathLike) else source
        fields["records" if self.reads_records else "corpus"] = [os.fspath(pattern) for pattern in patterns]
        fields["vocab"] = _identify_vocabulary(vocabulary)
        fields["init"] = _identify_model(init)
        return fields

    def inputs(self) -> dict:
        """The files that the run reads, by argument, as `open_run` takes them."""
        from kbert.corpus.corpus_files import find_files

        found = {"records": self.source} if self.reads_records else {"corpus": find_files(self.source)}
        for name, value in (("vocab", self.vocabulary), ("init", self.init)):
            if isinstance(value, str | os.PathLike):
                found[name] = value
        return found


def _identify_vocabulary(vocabulary):
    if vocabulary is None or isinstance(vocabulary, str | os.PathLike):
        return None if vocabulary is None else os.fspath(vocabulary)
    if isinstance(vocabulary, BertTokenizer):
        return {"sha256": vocabulary_hash(vocabulary.vocabulary), **vocabulary.settings()}
    return {"sha256": vocabulary_hash(list(vocabulary))}


def _identify_model(init):
    if init is None or isinstance(init, str | os.PathLike):
        return None if init is None else os.fspath(init)
    digest = hashlib.sha256()
    for weight in getattr(init, "model", init).weights:
        digest.update(weight.path.encode() + weight.numpy().tobytes())
    return {"sha256": digest.hexdigest()}
