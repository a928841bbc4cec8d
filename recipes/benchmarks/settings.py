"""What a benchmark measures: its arguments, and batches, synthetic or real."""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np

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


STEPS = 10  # in one call of fit: its own start-up is not counted
UNCOUNTED = 3  # the first steps of a fit take up to twice as long


def synthetic_batch(settings, config):
    """One full batch of random token ids: no padding, every prediction slot used."""
    rng = np.random.default_rng(0)
    shape = (settings.batch_size, settings.sequence_length)
    slots = (settings.batch_size, settings.max_predictions)
    inputs = {
        "token_ids": rng.integers(0, config.vocabulary_size, shape).astype("int32"),
        "segment_ids": np.broadcast_to(np.arange(shape[1]) >= shape[1] // 2, shape).astype("int32"),
        "padding_mask": np.ones(shape, bool),
        "mask_positions": np.sort(rng.permuted(np.tile(np.arange(shape[1]), (shape[0], 1)), axis=1)[:, : slots[1]]),
    }
    inputs["mask_positions"] = inputs["mask_positions"].astype("int32")
    labels = {
        "mlm_logits": rng.integers(0, config.vocabulary_size, slots).astype("int32"),
        "nsp_logits": rng.integers(0, 2, shape[:1]).astype("int32"),
    }
    weights = {"mlm_logits": np.ones(slots, "float32"), "nsp_logits": np.ones(shape[:1], "float32")}
    return inputs, labels, weights


def batches(settings, config, steps=STEPS):
    """A dataset of `steps` + UNCOUNTED batches, synthetic or real; synthetic ones need no TensorFlow on JAX."""
    if settings.data == "real":
        from benchmarks.text import real_batches

        return real_batches(settings).take(steps + UNCOUNTED).cache()
    from kbert.training.dry_run import repeated_batch  # not above: it imports Keras

    return repeated_batch(synthetic_batch(settings, config), steps + UNCOUNTED)
