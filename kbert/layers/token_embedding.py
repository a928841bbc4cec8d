"""The token embeddings, used for input and output.

Shapes: ... any leading axes, H hidden, V vocabulary.
"""

import keras

from kbert.layers.initializer import truncated_normal


@keras.saving.register_keras_serializable("kbert")
class TokenEmbedding(keras.layers.ReversibleEmbedding):
    """The embedding table [V, H]: ids to vectors and, with ``reverse=True``, vectors to a score for each token.

    `keras.layers.ReversibleEmbedding` with BERT's names and initialiser. `quantize("int8")` leaves it as it is.

    An id outside [0, V) is an error on TensorFlow's CPU (``InvalidArgumentError`` naming the id). On accelerators,
    under XLA and on JAX it is not checked: the vector is zero, or that of another id.

    Args:
        vocabulary_size: V.
        hidden_dim: H.
        initializer_stddev: of the truncated normal. The row of [PAD] is drawn like every other.
        **kwargs: name, dtype, trainable.

    Inputs: int32 ids [...], or with ``reverse=True`` float vectors [..., H].

    Outputs: float vectors [..., H], or scores [..., V], in the compute dtype.

    Source: section 3, "Input/Output Representations"; Google's ``run_pretraining.py`` for the tied output table.

    Example::

        table = TokenEmbedding(vocabulary_size=7, hidden_dim=4)
        scores = table(table(keras.ops.array([[1, 2, 3]])), reverse=True)  # [1, 3, 7]
    """

    def __init__(self, vocabulary_size, hidden_dim, initializer_stddev=0.02, **kwargs):
        super().__init__(
            vocabulary_size, hidden_dim, embeddings_initializer=truncated_normal(initializer_stddev), **kwargs
        )
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.initializer_stddev = initializer_stddev
        # By default Keras multiplies by the table as it is stored, in float32, inside other layers (Keras 3.15).
        self.reverse_dtype = self.compute_dtype

    def get_config(self):
        return keras.layers.Layer.get_config(self) | {
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "initializer_stddev": self.initializer_stddev,
        }
