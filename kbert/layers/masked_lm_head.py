"""From hidden states at masked positions to a score for each token of the vocabulary.

Shapes: B batch, S sequence, H hidden, P predictions, V vocabulary.
"""

from typing import TYPE_CHECKING, Any, Self

import keras
from keras import ops

from kbert.keras_compat import Tensor, deserialize
from kbert.layers.activation import activation_function
from kbert.layers.layer_norm import LayerNorm
from kbert.layers.lora_dense import LoraDense

if TYPE_CHECKING:
    from kbert.layers.embedding_block import TokenEmbedding


@keras.saving.register_keras_serializable("kbert")
class MaskedLMHead(keras.layers.Layer):
    """Gathers the masked positions, then dense(H) → activation → LayerNorm → scores over the vocabulary + bias.

    Gathering comes first because the scores are by far the widest tensor of BERT, and only P of S rows are needed.

    Args:
        token_embedding: the encoder's `TokenEmbedding`, whose table is also the output table (tied). None: untied.
            A functional model of your own with a tied head cannot be loaded from a ``.keras`` file, whose configs do
            not tie it again: build it in code and call `load_weights`, or take `kbert.BertPretrainer`.
        vocabulary_size: V, where `token_embedding` is None.
        activation: a name of `kbert.config.ACTIVATIONS`.
        layer_norm_epsilon: of the normalisation, 1e-12 here too.
        initializer_stddev: of the kernel and of an untied table.

    Inputs: ``sequence_output`` float [B, S, H]; ``mask_positions`` int32 [B, P] in 0 … S - 1 (unused slots point at 0).

    Outputs: float32 [B, P, V], from a product in the compute dtype.

    Raises:
        ValueError: neither or both of `token_embedding` and `vocabulary_size`.

    Source: section 3.1, task 1; Google's ``run_pretraining.py``, ``get_masked_lm_output``.

    Example::

        head = MaskedLMHead(vocabulary_size=7)
        scores = head(keras.ops.ones((2, 5, 4)), keras.ops.array([[1, 3], [2, 0]]))  # [2, 2, 7]
    """

    def __init__(
        self,
        token_embedding: "TokenEmbedding | None" = None,
        vocabulary_size: int | None = None,
        activation: str = "gelu_tanh",
        layer_norm_epsilon: float = 1e-12,
        initializer_stddev: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if (token_embedding is None) == (vocabulary_size is None):
            raise ValueError(
                "MaskedLMHead: give `token_embedding` for a tied output table or `vocabulary_size` for an untied one. "
                f"Received: token_embedding={token_embedding}, vocabulary_size={vocabulary_size}"
            )
        self.token_embedding = token_embedding
        self.vocabulary_size = vocabulary_size or token_embedding.vocabulary_size
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_stddev = initializer_stddev
        self._activate = activation_function(activation)

    def build(self, sequence_output_shape, mask_positions_shape=None) -> None:
        hidden_dim = sequence_output_shape[-1]
        self.transform = LoraDense(
            hidden_dim,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_stddev),
            dtype=self.dtype_policy,
            name="transform",
        )
        self.transform.build((None, hidden_dim))
        self.layer_norm = LayerNorm(self.layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm")
        self.layer_norm.build((None, hidden_dim))
        if self.token_embedding is None:
            self.output_embeddings = self.add_weight(
                name="output_embeddings",
                shape=(self.vocabulary_size, hidden_dim),
                initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_stddev),
            )
        self.output_bias = self.add_weight(name="output_bias", shape=(self.vocabulary_size,), initializer="zeros")

    def call(self, sequence_output: Tensor, mask_positions: Tensor, training: bool = False) -> Tensor:
        batch, predictions = ops.shape(mask_positions)
        x = _gather_positions(sequence_output, mask_positions)  # [B * P, H]
        x = self._activate(self.transform(x, training=training), training=training)
        x = self.layer_norm(x, training=training)
        if self.token_embedding is None:
            scores = ops.matmul(x, ops.transpose(self.output_embeddings))  # [B * P, V]
        else:
            scores = self.token_embedding(x, reverse=True)
        scores = ops.add(ops.cast(scores, "float32"), ops.cast(self.output_bias, "float32"))
        return ops.reshape(scores, (batch, predictions, self.vocabulary_size))

    def compute_output_spec(
        self, sequence_output: keras.KerasTensor, mask_positions: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        return keras.KerasTensor((*mask_positions.shape, self.vocabulary_size), dtype="float32")

    def get_config(self) -> dict[str, Any]:
        tied = self.token_embedding is not None
        return super().get_config() | {
            "token_embedding": self.token_embedding if tied else None,
            "vocabulary_size": None if tied else self.vocabulary_size,
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_stddev": self.initializer_stddev,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**{**config, "token_embedding": deserialize(config["token_embedding"])})


def _gather_positions(x, positions):
    """Rows of ``x`` [B, S, H] at ``positions`` [B, P], as [B * P, H]: one flat gather, cheaper than one per example."""
    batch, length, hidden_dim = ops.shape(x)
    offsets = ops.arange(batch, dtype="int32") * length
    flat = ops.reshape(ops.cast(positions, "int32") + ops.expand_dims(offsets, 1), (-1,))
    return ops.take(ops.reshape(x, (-1, hidden_dim)), flat, axis=0)
