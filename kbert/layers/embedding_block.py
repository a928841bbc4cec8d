"""Token, segment and position embeddings: the input of the encoder.

Shapes: B batch, S sequence, H hidden, V vocabulary.
"""

from typing import Any

import keras
from keras import ops

from kbert.keras_compat import Tensor
from kbert.layers.layer_norm import LayerNorm
from kbert.layers.replica_dropout import ReplicaDropout
from kbert.layers.sinusoidal_positions import SinusoidalPositions


def not_wrapped(ids: Tensor, size: int) -> Tensor:
    """Ids for a table of this size that stay negative where they are, although Keras then adds the size to them."""
    return ops.where(ids < 0, ids - size, ids)


@keras.saving.register_keras_serializable("kbert")
class TokenEmbedding(keras.layers.ReversibleEmbedding):
    """The embedding table [V, H]: ids to vectors and, with ``reverse=True``, vectors to a score for each token.

    `keras.layers.ReversibleEmbedding` with BERT's names and initialiser. `quantize("int8")` leaves it as it is.

    An id outside [0, V), also a negative one, is an error on TensorFlow's and PyTorch's CPU. Where a device cannot
    raise errors, it has the nearest id's vector under TensorFlow's XLA, NaN on JAX and zeros on TensorFlow's GPU
    without XLA. The models check ids in NumPy arrays, and in a tf.data.Dataset with labels, before that.

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

    def __init__(self, vocabulary_size: int, hidden_dim: int, initializer_stddev: float = 0.02, **kwargs):
        super().__init__(
            vocabulary_size,
            hidden_dim,
            # Of this table alone: Keras draws an initialiser's seed when it is made, so that variables of one shape
            # that share it start equal. It cuts at two deviations, as Google's ``create_initializer`` does.
            embeddings_initializer=keras.initializers.TruncatedNormal(stddev=initializer_stddev),
            **kwargs,
        )
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.initializer_stddev = initializer_stddev
        # By default Keras multiplies by the table as it is stored, in float32, inside other layers (Keras 3.15).
        self.reverse_dtype = self.compute_dtype

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        return super().call(inputs if reverse else not_wrapped(inputs, self.vocabulary_size), reverse=reverse)

    def get_config(self) -> dict[str, Any]:
        return keras.layers.Layer.get_config(self) | {
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "initializer_stddev": self.initializer_stddev,
        }


@keras.saving.register_keras_serializable("kbert")
class EmbeddingBlock(keras.layers.Layer):
    """Token + segment + position embedding, then LayerNorm, then dropout.

    Args:
        vocabulary_size: number of word pieces.
        hidden_dim: H.
        max_sequence_length: length of the position table. No sequence can be longer.
        num_segments: number of segment types, 2 in the released models.
        dropout: rate after the normalisation.
        layer_norm_epsilon: of the normalisation.
        initializer_stddev: of all tables.
        positions: "learned", a table, or "sinusoidal": `SinusoidalPositions`.

    Inputs: int32 [B, S]: ``token_ids``; ``segment_ids``, or None for segment 0 throughout; ``position_ids`` for packed
    rows, or None for 0 … S - 1.

    Outputs: float [B, S, H] in the compute dtype. Ids outside their tables: see `TokenEmbedding`.

    Raises:
        ValueError: a sequence longer than the position table, as soon as its length is known: when the model is built,
            or at the first call. If TensorFlow knows it only when the graph runs, the error is an
            ``InvalidArgumentError``.

    Source: section 3, figure 2; Google's ``modeling.py``, ``embedding_postprocessor``.

    Example::

        block = EmbeddingBlock(vocabulary_size=7, hidden_dim=4, max_sequence_length=8)
        x = block(keras.ops.array([[1, 2, 3]]), keras.ops.array([[0, 0, 1]]))  # [1, 3, 4]
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        max_sequence_length: int,
        num_segments: int = 2,
        dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        initializer_stddev: float = 0.02,
        positions: str = "learned",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.dropout_rate = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_stddev = initializer_stddev
        self.positions = positions
        self.token_embedding = TokenEmbedding(
            vocabulary_size, hidden_dim, initializer_stddev, dtype=self.dtype_policy, name="token_embedding"
        )
        self.segment_embedding = self._table(num_segments, "segment_embedding")
        if positions == "sinusoidal":
            self.position_embedding = SinusoidalPositions(
                hidden_dim, initializer_stddev, dtype=self.dtype_policy, name="position_embedding"
            )
        else:
            self.position_embedding = self._table(max_sequence_length, "position_embedding")
        self.layer_norm = LayerNorm(layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm")
        self.dropout = ReplicaDropout(dropout, dtype=self.dtype_policy, name="dropout")

    def _table(self, size, name):
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_stddev)
        return keras.layers.Embedding(size, self.hidden_dim, initializer, dtype=self.dtype_policy, name=name)

    def build(self, token_ids_shape, segment_ids_shape=None, position_ids_shape=None) -> None:
        for table in (self.token_embedding, self.segment_embedding, self.position_embedding):
            table.build(token_ids_shape)
        for layer in (self.layer_norm, self.dropout):
            layer.build((*token_ids_shape, self.hidden_dim))

    def call(
        self,
        token_ids: Tensor,
        segment_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        training: bool = False,
    ) -> Tensor:
        if segment_ids is None:
            segment_ids = ops.zeros_like(token_ids)
        return self.combine(self.token_embedding(token_ids), segment_ids, position_ids, training)

    def combine(
        self, token_vectors: Tensor, segment_ids: Tensor, position_ids: Tensor | None = None, training: bool = False
    ) -> Tensor:
        """The block's output with the vectors [B, S, H] in place of the tokens' embeddings."""
        if position_ids is None:
            positions = self._first_positions(token_vectors)
        else:
            positions = self.position_embedding(position_ids)
        # Cast, as a quantised table gives float32 inside other layers, whatever its policy (Keras 3.15).
        x = ops.cast(token_vectors, self.compute_dtype)  # [B, S, H]
        segment_ids = not_wrapped(segment_ids, self.num_segments)
        x = x + ops.cast(self.segment_embedding(segment_ids), self.compute_dtype)
        x = x + ops.cast(positions, self.compute_dtype)
        return self.dropout(self.layer_norm(x, training=training), training=training)

    def _first_positions(self, tokens):
        self._check_length(tokens.shape[1])
        length = ops.shape(tokens)[1]
        if tokens.shape[1] is None and keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            message = "a sequence is longer than the position table"
            check = tf.debugging.assert_less_equal(length, self.max_sequence_length, message=message)
            with tf.control_dependencies([] if check is None else [check]):  # else the sum below may fail first
                length = tf.identity(length)
        # A sinusoidal layer has no table; a quantised one holds codes, which the layer scales.
        if self.positions != "learned" or self.position_embedding.quantization_mode is not None:
            return self.position_embedding(ops.arange(length, dtype="int32"))  # [S, H]
        return ops.cast(self.position_embedding.embeddings[:length], self.compute_dtype)  # [S, H]

    def _check_length(self, length):
        if length is not None and length > self.max_sequence_length:
            raise ValueError(
                f"A sequence cannot be longer than the position table: at most {self.max_sequence_length} tokens "
                f"(`max_sequence_length`). Received: token_ids with {length} a row. Truncate the text, or build the "
                "model with a longer table."
            )

    def compute_output_spec(
        self,
        token_ids: keras.KerasTensor,
        segment_ids: keras.KerasTensor | None = None,
        position_ids: keras.KerasTensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        if position_ids is None:
            self._check_length(token_ids.shape[1])
        return keras.KerasTensor((*token_ids.shape, self.hidden_dim), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "max_sequence_length": self.max_sequence_length,
            "num_segments": self.num_segments,
            "dropout": self.dropout_rate,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_stddev": self.initializer_stddev,
            "positions": self.positions,
        }
