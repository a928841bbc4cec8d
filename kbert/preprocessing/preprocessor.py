"""What the preprocessors have in common: from string columns to the batch of a model.

Shapes: B batch, C choices, S sequence.
"""

from typing import Any

import keras
import tensorflow as tf

import kbert.text.tokenizer  # noqa: F401  registers BertTokenizer, so that configs that hold one can be read
from kbert.checks import check_positive
from kbert.keras_compat import deserialize, pass_inputs_unchanged


class Preprocessor(keras.layers.Layer):
    """A layer that keeps a tokenizer and packs tokens into rows of a static length.

    It works eagerly, in tf.data and on symbolic inputs. A subclass has `call` and
    `compute_output_spec`.

    Args:
        tokenizer: `kbert.BertTokenizer`.
        sequence_length: S, static.
        **kwargs: name, dtype, trainable.

    Attributes:
        input_names: the string columns that a call takes.
        list_columns: the columns among them that hold several strings per row, [B, C].
        pair: whether a row has a second text.
        makes_windows: whether a call takes `max_windows`, and a long text becomes several rows.
        makes_labels: whether the labels of `fit` are made from the texts, by `training_batches`.
        option_names: arguments of the constructor that are stored with the model, under these
            names.

    Raises:
        ValueError: a `sequence_length` that is not a positive integer.
    """

    input_names: tuple[str, ...] = ("text",)
    list_columns: tuple[str, ...] = ()
    pair: bool = False
    makes_windows: bool = False
    makes_labels: bool = False
    option_names: tuple[str, ...] = ()

    def __init__(self, tokenizer, sequence_length, **kwargs):
        super().__init__(**kwargs)
        (self.sequence_length,) = check_positive(type(self).__name__, sequence_length=sequence_length).values()
        self.tokenizer = tokenizer
        pass_inputs_unchanged(self)  # lists of strings are welcome, and strings stay with TensorFlow
        self.supports_jit = False  # XLA has no strings

    @property
    def special_ids(self):
        """The ids that packing needs, as arguments of `kbert.text.pack_ranges`."""
        return {name: getattr(self.tokenizer, name) for name in ("cls_id", "sep_id", "pad_id")}

    def settings(self) -> dict[str, Any]:
        """What is stored with the model, by the names of the task object's fields."""
        options = {name: getattr(self, name) for name in self.option_names}
        return {"sequence_length": self.sequence_length, **options, "tokenizer": self.tokenizer.settings()}

    def string_signature(self) -> dict[str, tf.TensorSpec]:
        """The inputs as ``tf.TensorSpec``, for exporting: string [None] each, list columns [None, None]."""
        shapes = {name: [None, None] if name in self.list_columns else [None] for name in self.input_names}
        return {name: tf.TensorSpec(shape, tf.string, name=name) for name, shape in shapes.items()}

    def batch_spec(self, *rows):
        """The spec of ``token_ids``, ``segment_ids`` and ``padding_mask`` [*rows, S]."""
        dtypes = {"token_ids": "int32", "segment_ids": "int32", "padding_mask": "bool"}
        shape = (*rows, self.sequence_length)
        return {name: keras.KerasTensor(shape, dtype=dtype) for name, dtype in dtypes.items()}

    def get_config(self):
        options = {name: getattr(self, name) for name in ("tokenizer", "sequence_length", *self.option_names)}
        return {**super().get_config(), **options}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "tokenizer": deserialize(config["tokenizer"])})
