"""What the preprocessors have in common: from string columns to the batch of a model."""

import keras

from kbert.text.deserialize import deserialize


class Preprocessor(keras.layers.Layer):
    """A layer that keeps a tokenizer and packs tokens into rows of a static length.

    It works eagerly, in tf.data and on symbolic inputs. A subclass names the string columns that it takes in
    `input_names`, and has `call` and `compute_output_spec`.

    Args:
        tokenizer: `kbert.BertTokenizer`.
        sequence_length: S, static.
        **kwargs: name, dtype, trainable.
    """

    input_names = ("text",)
    makes_windows = False  # whether a call takes `max_windows`, and a long text becomes several rows

    def __init__(self, tokenizer, sequence_length, **kwargs):
        super().__init__(**kwargs)
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self._convert_input_args = False  # lists of strings are welcome, and strings stay with TensorFlow
        self._allow_non_tensor_positional_args = True
        self.supports_jit = False  # XLA has no strings

    @property
    def special_ids(self):
        """The ids that packing needs, as arguments of `kbert.text.packing.pack_ranges`."""
        return {name: getattr(self.tokenizer, name) for name in ("cls_id", "sep_id", "pad_id")}

    def batch_spec(self, *rows):
        """What `compute_output_spec` says of ``token_ids``, ``segment_ids`` and ``padding_mask`` [*rows, S]."""
        dtypes = {"token_ids": "int32", "segment_ids": "int32", "padding_mask": "bool"}
        shape = (*rows, self.sequence_length)
        return {name: keras.KerasTensor(shape, dtype=dtype) for name, dtype in dtypes.items()}

    def get_config(self):
        return {**super().get_config(), "tokenizer": self.tokenizer, "sequence_length": self.sequence_length}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "tokenizer": deserialize(config["tokenizer"])})
