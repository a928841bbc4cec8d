"""A bidirectional LSTM over an encoder's hidden states, as on top of the paper's left-to-right model.

Shapes: B batch, S sequence, H hidden.
"""

from typing import Any

import keras
from keras import ops

from kbert.checks import check_bool
from kbert.keras_compat import Tensor


@keras.saving.register_keras_serializable("kbert")
class BiLstm(keras.layers.Layer):
    """An LSTM of H / 2 units in each direction, so that the result is as wide as the input.

    Args:
        return_sequences: True: the states at every token. False: the last state of each direction, for a whole text.

    Inputs: ``x`` float [B, S, H]; ``padding_mask`` bool [B, S], True at tokens, which padding follows.

    Outputs: float [B, S, H], or [B, H]: first the left-to-right half, then the other. Values at padding have no
    meaning.

    Raises:
        ValueError: an odd H.

    Source: Devlin et al. 2018, section 5.1, "+ BiLSTM": "we also tried adding a randomly initialized BiLSTM on top of
    it for fine-tuning". The paper does not give its width.

    Example::

        x = keras.random.normal((2, 5, 12))
        BiLstm()(x, keras.ops.ones((2, 5), "bool"))  # [2, 5, 12]
    """

    def __init__(self, return_sequences: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.return_sequences = check_bool(return_sequences, "BiLstm: `return_sequences`")

    def build(self, x_shape, padding_mask_shape=None) -> None:
        if x_shape[-1] % 2:
            raise ValueError(f"BiLstm: expected an input of even width. Received: {x_shape[-1]}")
        self.forward, self.backward = self._lstm(x_shape, "forward", False), self._lstm(x_shape, "backward", True)

    def _lstm(self, x_shape, name, go_backwards):
        lstm = keras.layers.LSTM(
            x_shape[-1] // 2,
            return_sequences=self.return_sequences,
            go_backwards=go_backwards,
            use_cudnn=False,  # that kernel cannot be compiled by XLA
            dtype=self.dtype_policy,
            name=name,
        )
        lstm.build(x_shape)
        return lstm

    def call(self, x: Tensor, padding_mask: Tensor, training: bool = False) -> Tensor:
        forward = self.forward(x, mask=padding_mask, training=training)
        backward = self.backward(x, mask=padding_mask, training=training)
        if self.return_sequences:
            backward = ops.flip(backward, axis=1)
        return ops.concatenate([forward, backward], axis=-1)

    def compute_output_spec(
        self, x: keras.KerasTensor, padding_mask: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        shape = x.shape if self.return_sequences else (x.shape[0], x.shape[-1])
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"return_sequences": self.return_sequences}
