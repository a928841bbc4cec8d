"""A learned mean of an encoder's layers.

Shapes: B batch, T words, L layers, H hidden.
"""

import keras
from keras import ops

from kbert.keras_compat import Tensor


@keras.saving.register_keras_serializable("kbert")
class ScalarMix(keras.layers.Layer):
    """The weighted sum of L hidden states of a word: softmax of L learned numbers, times a learned scale.

    At first all layers have equal weights and the scale is 1.

    Inputs: float [..., L, H].

    Outputs: float [..., H].

    Source: Peters et al. 2018 (ELMo), equation 1; Devlin et al. 2018, table 7.

    Example::

        ScalarMix()(keras.ops.ones((2, 5, 4, 12)))  # [2, 5, 12], ones
    """

    def build(self, input_shape) -> None:
        self.scores = self.add_weight(name="scores", shape=(input_shape[-2],), initializer="zeros")
        self.scale = self.add_weight(name="scale", shape=(), initializer="ones")

    def call(self, inputs: Tensor) -> Tensor:
        weights = ops.expand_dims(ops.softmax(self.scores), 1)  # [L, 1]
        return self.scale * ops.sum(weights * inputs, axis=-2)

    def compute_output_shape(self, input_shape) -> tuple:
        return (*input_shape[:-2], input_shape[-1])
