"""What a benchmark measures: its arguments, and batches, synthetic or real."""

import dataclasses
from typing import Literal

import numpy as np

from kbert.config import BertConfig
from kbert.options import Count, FractionBelowOne, Options, PathLike, Positive
from kbert.pretraining.run.pretrain import SIZES


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkSettings(Options):
    """The arguments that the benchmarks share; each reads those that it needs.

    Args:
        size: of the model.
        batch_size: rows per batch.
        sequence_length: tokens of a row.
        max_predictions: masked positions in a row.
        precision: of the arithmetic.
        xla: whether to compile.
        dropout: train: dropout rate; None: 0.1.
        data: train, encode: random token ids, or batches of `corpus` or `records`.
        corpus: text to use; none: the prose of this Python installation.
        records: directory of ``kbert records``, instead of text.
        vocabulary: a vocab.txt; None: one of 8,000 tokens is learned from the prose.
        packed: input, feed: with packed rows.
        model: serve, operations, all: the encoder to export (peers: of Hugging Face).
        frozen_weights: serve, operations, all: the weights are constants.
        seconds: duration of one round of one system.
        rounds: number of rounds.
        peers: also measure other libraries that are installed.
    """

    size: SIZES = "mini"
    batch_size: Count = 32
    sequence_length: Count = 128
    max_predictions: Count = 20
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    xla: Literal["auto", "on", "off"] = "auto"
    dropout: FractionBelowOne | None = None
    data: Literal["synthetic", "real"] = "synthetic"
    corpus: list[str] | None = None
    records: PathLike | None = None
    vocabulary: PathLike | None = None
    packed: bool = False
    model: PathLike | None = None
    frozen_weights: bool = False
    seconds: Positive = 5.0
    rounds: Count = 5
    peers: bool = False

    def __post_init__(self):
        super().__post_init__()
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
