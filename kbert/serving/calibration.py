"""A float pipeline → an int8 one, whose ranges are those of the inputs of dense layers on some texts.

Shapes: n rows of tokens, H hidden (inputs), u units.
"""

import itertools
import os
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from kbert.finetuning.prediction_rows import rows_to_answer
from kbert.layers.encoder_block import EncoderBlock
from kbert.pipelines.pipeline import Pipeline, column_batches, join_padded, makes_batches
from kbert.preprocessing.strings import check_batches
from kbert.serving.int8 import INPUTS, encoder_blocks, quantize_block, row_lengths

_MOST_ROWS = 512  # of a file; the ranges of 128 texts are as good


def calibration_rows(pipeline: Pipeline, calibration: Any) -> dict[str, Any]:
    """The columns of `calibration`, or of rows of the file at this path, evenly spaced in it."""
    if isinstance(calibration, tf.data.Dataset):
        check_batches(calibration, pipeline.input_names, "export: `calibration`")
        if calibration.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise ValueError("export: `calibration` is a dataset without an end. Take some of its batches: .take(8)")
    if makes_batches(calibration):
        # Read only once: a shuffled dataset would have another order the next time.
        batches = [pipeline.columns(batch) for batch in column_batches(calibration, 1)]
        return join_padded(batches, dict.fromkeys(pipeline.preprocessor.list_columns, ""))
    if not isinstance(calibration, str | os.PathLike):
        return pipeline.columns(calibration)
    columns, rows = rows_to_answer(pipeline, calibration)
    chosen = list(itertools.islice(rows, 0, None, -(-len(rows) // _MOST_ROWS)))
    return {name: [each.text(row) for row in chosen] for name, each in columns.items()}


def int8_pipeline(pipeline: Pipeline, texts: Any) -> Pipeline:
    """A copy of a pipeline without LoRA in which the dense layers of the encoder blocks are int8 products.

    `texts` are rows in memory, as `pipeline.predict` takes them. The range of a dense layer's inputs is from the least
    to the largest value on them. The copy answers only in graphs, as `predict` and exports do.
    """
    pipeline = pipeline.in_precision("float32")
    blocks = encoder_blocks(pipeline.model)
    observed = [{name: _observe(block, name) for name in INPUTS} for block in blocks]
    pipeline.predict(texts, batch_size=1, verbose=0)  # a single row has no padding
    for block, layers in zip(blocks, observed, strict=True):
        for layer in layers.values():
            layer.put_back()
        quantize_block(block, {name: layer.bounds for name, layer in layers.items()})
    pipeline.model.row_lengths = row_lengths(pipeline.model)
    pipeline.predict_function = None  # traced with the observing layers
    return pipeline


def _observe(block: EncoderBlock, name: str) -> "_Observed":
    part, attribute = name.split(".")
    return _Observed(getattr(block, part), attribute)


class _Observed:
    """Stands in for a dense layer, and keeps the least and the largest of its inputs."""

    def __init__(self, owner: keras.layers.Layer, name: str) -> None:
        self.owner, self.name, self.dense = owner, name, getattr(owner, name)
        inputs = self.dense.kernel.shape[0]
        self.least = tf.Variable(tf.fill([inputs], np.float32(np.inf)))
        self.largest = tf.Variable(tf.fill([inputs], np.float32(-np.inf)))
        setattr(owner, name, self)

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:  # [n, H] -> [n, u]
        self.least.assign(tf.minimum(self.least, tf.reduce_min(x, axis=0)))
        self.largest.assign(tf.maximum(self.largest, tf.reduce_max(x, axis=0)))
        return self.dense(x, training=training)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return self.least.numpy(), self.largest.numpy()

    def put_back(self) -> None:
        """Sets the dense layer in its place again."""
        setattr(self.owner, self.name, self.dense)
