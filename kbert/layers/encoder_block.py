"""One Transformer layer of the encoder.

Shapes: B batch, S sequence, H hidden, A heads.
"""

import functools
import itertools
import weakref
from typing import Any

import keras
from keras import ops

from kbert.keras_compat import Tensor, all_layers, custom_gradient, in_tensorflow_graph, stored_value
from kbert.layers.feed_forward import FeedForward
from kbert.layers.layer_norm import LayerNorm
from kbert.layers.replica_dropout import ReplicaDropout
from kbert.layers.self_attention import SelfAttention


@keras.saving.register_keras_serializable("kbert")
class EncoderBlock(keras.layers.Layer):
    """Self-attention and feed-forward, each followed by dropout, the residual sum and LayerNorm (post-LN).

    Args:
        num_heads: A.
        intermediate_dim: width of the feed-forward network.
        activation: a name of `kbert.config.ACTIVATIONS`.
        hidden_dropout: rate on the output of both sublayers.
        attention_dropout: rate on the attention probabilities.
        layer_norm_epsilon: of both normalisations.
        initializer_stddev: of all kernels.

    Attributes:
        rematerialize: bool, False at first: whether training keeps only the inputs for the gradient, and recomputes the
            rest (`rematerialized`). It is not saved.

    Inputs: ``x`` float [B, S, H]; ``bias`` float [B, 1, 1 or S, S] (see `AttentionBias`), or None.

    Outputs: float [B, S, H]. With ``return_probs=True`` also the attention probabilities, float32 [B, A, S, S].

    Source: section 3, "Model Architecture"; Google's ``modeling.py``, ``transformer_model``.

    Example::

        block = EncoderBlock(num_heads=3, intermediate_dim=48)
        y = block(keras.random.normal((2, 5, 12)), keras.ops.zeros((2, 1, 1, 5)))  # [2, 5, 12]
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        activation: str = "gelu_tanh",
        hidden_dropout: float = 0.1,
        attention_dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        initializer_stddev: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.rematerialize = False
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.activation = activation
        self.hidden_dropout = hidden_dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_stddev = initializer_stddev
        self.attention = SelfAttention(num_heads, attention_dropout, initializer_stddev, dtype=policy, name="attention")
        self.attention_output_dropout = ReplicaDropout(hidden_dropout, dtype=policy, name="attention_output_dropout")
        self.attention_layer_norm = LayerNorm(layer_norm_epsilon, dtype=policy, name="attention_layer_norm")
        self.feed_forward = FeedForward(
            intermediate_dim, activation, initializer_stddev, dtype=policy, name="feed_forward"
        )
        self.feed_forward_dropout = ReplicaDropout(hidden_dropout, dtype=policy, name="feed_forward_dropout")
        self.feed_forward_layer_norm = LayerNorm(layer_norm_epsilon, dtype=policy, name="feed_forward_layer_norm")

    def build(self, x_shape, bias_shape=None) -> None:
        self.attention.build(x_shape, bias_shape)
        self.attention_output_dropout.build(x_shape)
        self.attention_layer_norm.build(x_shape)
        self.feed_forward.build(x_shape)
        self.feed_forward_dropout.build(x_shape)
        self.feed_forward_layer_norm.build(x_shape)

    def call(
        self, x: Tensor, bias: Tensor | None = None, return_probs: bool = False, training: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        if self.rematerialize and training and not return_probs:
            return rematerialized(self, x, bias)
        return self.transform(x, bias, return_probs, training)

    def transform(
        self, x: Tensor, bias: Tensor | None = None, return_probs: bool = False, training: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Computes what `call` returns, without rematerialisation."""
        attended = self.attention(x, bias, return_probs=return_probs, training=training)
        attended, probs = attended if return_probs else (attended, None)
        attended = self.attention_output_dropout(attended, training=training)
        x = self.attention_layer_norm(x + attended, training=training)  # [B, S, H]
        transformed = self.feed_forward_dropout(self.feed_forward(x, training=training), training=training)
        x = self.feed_forward_layer_norm(x + transformed, training=training)
        return (x, probs) if return_probs else x

    def compute_output_spec(
        self,
        x: keras.KerasTensor,
        bias: keras.KerasTensor | None = None,
        return_probs: bool = False,
        training: bool = False,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, keras.KerasTensor]:
        return self.attention.compute_output_spec(x, bias, return_probs=return_probs)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "activation": self.activation,
            "hidden_dropout": self.hidden_dropout,
            "attention_dropout": self.attention_dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_stddev": self.initializer_stddev,
        }


def rematerialized(block: EncoderBlock, x: Tensor, bias: Tensor | None) -> Tensor:
    """The output of an encoder block in training, float [B, S, H]; only its inputs are kept for the gradient.

    `x` is float [B, S, H], `bias` float [B, 1, 1 or S, S]. The seeds of dropout are drawn outside of what is computed
    twice, so that both times drop the same values. (`keras.RematScope` would draw again, hence give wrong gradients:
    Keras 3.15.)

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".
    """
    dropouts = _dropouts(block)
    if dropouts and keras.backend.backend() not in ("tensorflow", "jax"):
        raise NotImplementedError("rematerialize: dropout needs TensorFlow or JAX. Set the dropout rates to 0.")
    seeds = [layer.seed_generator.next() for layer in dropouts]
    bias = ops.zeros((1, 1, 1, 1), x.dtype) if bias is None else bias
    if not in_tensorflow_graph():
        return keras.remat(functools.partial(_transform, block, seeds))(x, bias)
    number = next(_NUMBERS)
    _BLOCKS[number] = block
    return _rematerialized(number, x, bias, *seeds, *map(stored_value, block.trainable_variables))


def _dropouts(block):
    return [layer for layer in all_layers(block) if isinstance(layer, ReplicaDropout) and layer.rate]


def _transform(block, seeds, x, bias):
    """`block.transform` in training, with the seeds of its dropouts."""
    dropouts = _dropouts(block)
    for layer, seed in zip(dropouts, seeds, strict=True):
        layer.given_seed = seed
    try:
        return block.transform(x, bias, training=True)
    finally:
        for layer in dropouts:
            layer.given_seed = None


# What follows does for TensorFlow's graphs what `keras.remat` does, without its memory leak (see `custom_gradient`).
_NUMBERS = itertools.count()
_BLOCKS = weakref.WeakValueDictionary()  # blocks by number: a gradient that held its block would keep it in memory


def _rematerialized_gradient(upstream, number, x, bias, *seeds_and_weights):
    import tensorflow as tf

    block = _BLOCKS[int(tf.get_static_value(number))]
    variables = [stored_value(variable) for variable in block.trainable_variables]
    seeds = seeds_and_weights[: len(seeds_and_weights) - len(variables)]
    # Always 0, but only the gradient knows it. Without it, TensorFlow and XLA would reuse the first computation.
    zero = tf.minimum(tf.abs(tf.reshape(upstream, [-1])[0]), 0)
    with tf.GradientTape() as tape:
        tape.watch([x, bias])
        output = _transform(block, seeds, x + tf.cast(zero, x.dtype), bias)
    of_x, of_bias, *of_variables = tape.gradient(output, [x, bias, *variables], upstream)
    return None, of_x, of_bias, *[None] * len(seeds), *of_variables


@custom_gradient(_rematerialized_gradient)
def _rematerialized(number, x, bias, *seeds_and_weights):
    import tensorflow as tf

    block = _BLOCKS[int(tf.get_static_value(number))]
    seeds = seeds_and_weights[: len(seeds_and_weights) - len(block.trainable_variables)]
    return _transform(block, seeds, x, bias), ()
