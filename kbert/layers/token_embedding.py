"""The table of word pieces, read in both directions.

Shapes: ... any leading axes, H hidden, V vocabulary.
"""

import keras
from keras import ops

from kbert.layers.initializer import truncated_normal
from kbert.layers.matmul_transposed import matmul_transposed


@keras.saving.register_keras_serializable("kbert")
class TokenEmbedding(keras.layers.Layer):
    """The word-piece table [V, H]: ids to vectors and, with ``reverse=True``, vectors to one score for each word piece.

    Args:
        vocabulary_size: V.
        hidden_dim: H.
        initializer_stddev: of the truncated normal; the row of [PAD] is drawn like every other.

    Inputs: int32 ids [...], or with ``reverse=True`` float vectors [..., H].

    Outputs: float vectors [..., H], or scores [..., V]; in the compute dtype.

    An id outside [0, V) is an error on TensorFlow's CPU (``InvalidArgumentError`` naming the id); on accelerators,
    under XLA and on JAX nothing checks it: the vector is zero, or that of another id.

    Source: section 3, "Input/Output Representations"; the tied output table is that of Google's ``run_pretraining.py``.

    Example::

        table = TokenEmbedding(vocabulary_size=7, hidden_dim=4)
        scores = table(table(keras.ops.array([[1, 2, 3]])), reverse=True)  # [1, 3, 7]
    """

    def __init__(self, vocabulary_size, hidden_dim, initializer_stddev=0.02, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.initializer_stddev = initializer_stddev

    def build(self, input_shape=None):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=truncated_normal(self.initializer_stddev),
        )

    def call(self, inputs, reverse=False):
        if reverse:
            return matmul_transposed(inputs, self.embeddings)  # [..., V]
        if "int" not in keras.backend.standardize_dtype(inputs.dtype):  # Keras builds a subclassed model with floats
            inputs = ops.cast(inputs, "int32")
        return ops.cast(ops.take(self.embeddings, inputs, axis=0), self.compute_dtype)  # [..., H]

    def compute_output_spec(self, inputs, reverse=False):
        shape = (*inputs.shape[:-1], self.vocabulary_size) if reverse else (*inputs.shape, self.hidden_dim)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "initializer_stddev": self.initializer_stddev,
        }
