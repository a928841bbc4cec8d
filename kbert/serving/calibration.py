"""A float pipeline → an int8 one, whose ranges are those of the inputs of dense layers on some texts.

Shapes: n rows of tokens, H hidden (inputs), u units.
"""

import itertools
import os
from typing import Any

import numpy as np
import tensorflow as tf

from kbert.finetuning.prediction_rows import rows_to_answer
from kbert.layers.lora_dense import LoraDense
from kbert.pipelines.pipeline import Pipeline
from kbert.serving.int8 import Int8Product, dense_layers, fused_activation, row_lengths

_MOST_ROWS = 512  # of a file; the ranges of 128 texts are as good


def calibration_rows(pipeline: Pipeline, calibration: Any) -> Any:
    """What `pipeline.predict` takes: `calibration` itself, or rows of the file at this path, evenly spaced in it."""
    if not isinstance(calibration, str | os.PathLike):
        return calibration
    columns, rows = rows_to_answer(pipeline, calibration, None, ())
    chosen = list(itertools.islice(rows, 0, None, -(-len(rows) // _MOST_ROWS)))
    return {name: [each.text(row) for row in chosen] for name, each in columns.items()}


def int8_pipeline(pipeline: Pipeline, texts: Any) -> Pipeline:
    """A copy of a pipeline without LoRA in which the dense layers of the encoder blocks are int8 products.

    `texts` are what `pipeline.predict` takes. The range of a dense layer's inputs is from the least to the largest
    value on them. The copy answers only in graphs, as `predict` and exports do.
    """
    pipeline = pipeline.in_precision("float32")
    observed = []
    for owner, name, dense in list(dense_layers(pipeline.model)):
        observed.append((owner, name, _Observed(dense)))
        setattr(*observed[-1])
    if isinstance(texts, tf.data.Dataset):
        pipeline.predict(texts.unbatch().batch(1), verbose=0)
    else:
        pipeline.predict(texts, batch_size=1, verbose=0)  # of a single row, which has no padding
    for owner, name, layer in observed:
        setattr(owner, name, layer.product(fused_activation(owner, name)))
    pipeline.model.row_lengths = row_lengths(pipeline.model)
    return pipeline


class _Observed:
    """A dense layer that notes the least and the largest of its inputs."""

    def __init__(self, dense: LoraDense) -> None:
        self.dense = dense
        self.least = tf.Variable(np.inf, dtype=tf.float32)
        self.largest = tf.Variable(-np.inf, dtype=tf.float32)

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:  # [n, H] -> [n, u]
        self.least.assign(tf.minimum(self.least, tf.reduce_min(x)))
        self.largest.assign(tf.maximum(self.largest, tf.reduce_max(x)))
        return self.dense(x, training=training)

    def product(self, activation: str | None) -> Int8Product:
        bounds = float(self.least.numpy()), float(self.largest.numpy())
        return Int8Product(self.dense.kernel.numpy(), self.dense.bias.numpy(), bounds, activation)
