"""The position-wise feed-forward network.

Shapes: B batch, S sequence, H hidden, F intermediate.
"""

from typing import Any

import keras
from keras import ops

from kbert.keras_compat import Tensor
from kbert.layers.activation import activation_function
from kbert.layers.lora_dense import LoraDense


@keras.saving.register_keras_serializable("kbert")
class FeedForward(keras.layers.Layer):
    """dense(F) → activation → dense(H), with the same weights at every position.

    Args:
        intermediate_dim: F, 4 H in the paper.
        activation: a name of `kbert.config.ACTIVATIONS`.
        initializer_stddev: of the kernels.

    Inputs: float [B, S, H].

    Outputs: float [B, S, H].

    Source: Vaswani et al. 2017, section 3.3, with the GELU of Hendrycks & Gimpel 2016.

    Example::

        FeedForward(intermediate_dim=16)(keras.ops.ones((2, 5, 4)))  # [2, 5, 4]
    """

    def __init__(
        self, intermediate_dim: int, activation: str = "gelu_tanh", initializer_stddev: float = 0.02, **kwargs
    ):
        super().__init__(**kwargs)
        self.intermediate_dim = intermediate_dim
        self.activation = activation
        self.initializer_stddev = initializer_stddev
        self.activate = activation_function(activation)

    def build(self, input_shape) -> None:
        self.intermediate = self._dense(self.intermediate_dim, input_shape, "intermediate")
        self.output_projection = self._dense(input_shape[-1], (*input_shape[:-1], self.intermediate_dim), "output")

    def _dense(self, units, input_shape, name):
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_stddev)
        dense = LoraDense(units, kernel_initializer=initializer, dtype=self.dtype_policy, name=name)
        dense.build(input_shape)
        return dense

    def call(self, x: Tensor, training: bool = False) -> Tensor:
        rows = ops.reshape(x, (-1, x.shape[-1]))  # [B * S, H]: plain matmuls, whose bias TensorFlow fuses
        rows = self.output_projection(self.activate(self.intermediate(rows), training=training))
        return ops.reshape(rows, ops.shape(x))

    def compute_output_shape(self, input_shape) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "intermediate_dim": self.intermediate_dim,
            "activation": self.activation,
            "initializer_stddev": self.initializer_stddev,
        }
