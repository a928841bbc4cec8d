"""What a benchmark measures."""

import dataclasses
import os
from collections.abc import Sequence

from kbert.checks import check_bool
from kbert.config import BertConfig

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
DATA = ("synthetic", "real")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkSettings:
    """The arguments that the benchmarks share; each reads those that it needs.

    Args:
        size: str, "tiny" to "large", of a model with random weights.
        max_predictions: int, masked positions of a sequence.
        precision: the Keras dtype policy.
        xla: "auto", "on" or "off".
        dropout: float, of the training; None: 0.1.
        corpus: patterns of text files; None: the prose of this installation.
        records: directory of records instead of text.
        vocabulary: path of a vocab.txt; None: one of 8,000 tokens is learned from the prose.
        data: "synthetic", random token ids, or "real", batches of `corpus` or `records`.
        packed: bool, whether real batches have packed rows; `train` and `encode` measure plain ones alone.
        model: path of the encoder that is exported and served.
        frozen_weights: bool, whether its weights are constants.
        seconds: float, the time for one round of one system.
        peers: bool, whether to measure other installed libraries as well, each at its best setting.

    Raises:
        ValueError: `data="real"` without `corpus` or `records`, or with `packed`; a count below 1.
    """

    size: str = "mini"
    batch_size: int = 32
    sequence_length: int = 128
    max_predictions: int = 20
    precision: str = "float32"
    xla: str = "auto"
    dropout: float | None = None
    corpus: Sequence[str] | None = None
    records: str | os.PathLike | None = None
    vocabulary: str | os.PathLike | None = None
    data: str = "synthetic"
    packed: bool = False
    model: str | os.PathLike | None = None
    frozen_weights: bool = False
    seconds: float = 5.0
    rounds: int = 5
    peers: bool = False

    def __post_init__(self):
        for name in ("batch_size", "sequence_length", "max_predictions", "rounds"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {getattr(self, name)!r}")
        for name in ("packed", "frozen_weights", "peers"):
            check_bool(getattr(self, name), f"`{name}`")
        if self.data not in DATA:
            raise ValueError(f"`data` must be one of {DATA}. Received: {self.data!r}")
        if self.data == "real" and not (self.corpus or self.records):
            raise ValueError('data="real": expected `corpus` or `records` to take the batches from. Received: neither')
        if self.data == "real" and self.packed:
            raise ValueError('data="real": plain rows alone are measured so. Received: packed=True; see `feed`')

    def config(self) -> BertConfig:
        """The configuration of the model that is measured."""
        rates = ("hidden_dropout", "attention_dropout")
        return BertConfig.from_size(self.size, **({} if self.dropout is None else dict.fromkeys(rates, self.dropout)))

    def hardware(self):
        """Sets up the one device that is measured, with precision and XLA; see `choose_hardware`."""
        import keras

        from kbert.training.hardware import choose_hardware

        keras.config.set_dtype_policy(self.precision)  # of the whole process: each benchmark has one of its own
        return choose_hardware(strategy="one", precision=self.precision, xla=self.xla)

    def of_model(self) -> dict:
        """The settings that a model's figures depend on."""
        names = ("size", "batch_size", "sequence_length", "max_predictions", "precision", "dropout", "data")
        return {name: getattr(self, name) for name in names}
