"""The dense layer of every part of BERT, which LoRA can adapt.

Shapes: ... any leading axes, n their product, H hidden (inputs), u units, r rank.
"""

import keras
import numpy as np
from keras import ops

from kbert.keras_compat import Tensor, custom_gradient, delete_attribute, dense_kernel


@keras.saving.register_keras_serializable("kbert")
class LoraDense(keras.layers.Dense):
    """`keras.layers.Dense` whose low-rank matrices (`enable_lora`) are saved separately and are cheap to train.

    With LoRA the layer computes ``x W + (alpha / r) (x A) B + bias`` with A [H, r] and B [r, u]. Keras' layer adds A B
    to the kernel W first, so that a step computes the gradient of a whole kernel. It also saves that sum, and on
    loading sets A and B to zero, where the gradients of both are zero and training cannot continue. A layer without
    LoRA that loads the weights of one with LoRA gets its matrices, as inside the blocks of a model of your own; compile
    such a model after loading it.

    In training on TensorFlow the gradient of the bias is a matrix product, summed in float32. TensorFlow's own
    operation adds bfloat16 in bfloat16: over a few thousand rows it is wrong by a tenth and more, and takes twice as
    long.

    Args:
        *args, **kwargs: arguments of `keras.layers.Dense`.

    Inputs: float [..., H].

    Outputs: float [..., u].

    Raises:
        ValueError: LoRA on an int8 layer, int8 on a layer with LoRA, or LoRA twice.

    Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.

    Example::

        dense = LoraDense(3)
        dense.build((None, 4))
        dense.enable_lora(2)
        dense(keras.ops.ones((2, 4)))  # [2, 3]
    """

    lora_count = 0  # calls of `enable_lora`: a function traced before the last one uses the old matrices

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        is_plain = not self.lora_enabled and self.bias is not None
        if training and is_plain and keras.backend.backend() == "tensorflow":
            x = _product_in_training(inputs, self.kernel, self.bias)
        elif not self.lora_enabled:
            return super().call(inputs, training=training)
        else:
            scale = self.lora_alpha / self.lora_rank
            low_rank = ops.matmul(ops.matmul(inputs, self._cast(self.lora_kernel_a)), self._cast(self.lora_kernel_b))
            x = ops.matmul(inputs, dense_kernel(self)) + scale * low_rank
            x = x if self.bias is None else ops.add(x, self.bias)
        return x if self.activation is None else self.activation(x)

    def __delattr__(self, name):
        delete_attribute(self, name)

    def _cast(self, matrix):
        return ops.cast(matrix, self.compute_dtype)  # they are float32 under any policy

    def enable_lora(self, rank: int, lora_alpha: float | None = None, **kwargs) -> None:
        if self.quantization_mode is not None:
            raise ValueError(f"{self.path}: LoRA needs float weights. Received: {self.quantization_mode} ones.")
        super().enable_lora(rank, lora_alpha, **kwargs)
        self.lora_count += 1

    def merge_lora(self) -> None:
        """Adds the product of the low-rank matrices to the kernel, and removes them."""
        if not self.lora_enabled:
            return
        scale = self.lora_alpha / self.lora_rank
        change = scale * ops.matmul(self.lora_kernel_a, self.lora_kernel_b)
        kernel = dense_kernel(self)
        kernel.assign_add(ops.cast(change, kernel.dtype))
        kernel.trainable = True
        del self.lora_kernel_a, self.lora_kernel_b
        self.lora_enabled = False
        self.lora_rank = None
        self.lora_alpha = None

    def quantize(
        self,
        mode: str | None = None,
        type_check: bool = True,
        config: keras.quantizers.QuantizationConfig | None = None,
    ) -> None:
        if self.lora_enabled:
            raise ValueError(f"{self.path}: a layer with LoRA cannot be quantised. Call `merge_lora()` first.")
        super().quantize(mode, type_check=False, config=config)  # Keras would refuse a class that is not its own

    def save_own_variables(self, store) -> None:
        if not self.lora_enabled:
            super().save_own_variables(store)
            return
        for name, variable in self._stored().items():
            store[name] = variable
        store["lora_alpha"] = np.float64(self.lora_alpha)

    def load_own_variables(self, store) -> None:
        if "lora_alpha" in store.keys() and not self.lora_enabled:  # of a layer whose config does not say so
            self.enable_lora(store["lora_kernel_a"].shape[1], float(store["lora_alpha"][()]))
        if not self.lora_enabled:
            super().load_own_variables(store)
            return
        for name, variable in self._stored().items():
            if name in store.keys():
                variable.assign(store[name])
            elif name == "lora_kernel_b":  # saved without LoRA: A stays random, so that B can learn
                variable.assign(ops.zeros_like(variable))

    def _stored(self):
        own = {"0": dense_kernel(self)} | ({"1": self.bias} if self.use_bias else {})  # as Keras stores them
        return own | {"lora_kernel_a": self.lora_kernel_a, "lora_kernel_b": self.lora_kernel_b}


def _product_in_training(inputs, kernel, bias):
    """inputs [..., H] times kernel [H, u] plus bias [u]."""
    import tensorflow as tf

    rows = inputs if len(inputs.shape) == 2 else tf.reshape(inputs, (-1, inputs.shape[-1]))
    x = _product(rows, tf.convert_to_tensor(kernel), tf.convert_to_tensor(bias))
    return x if len(inputs.shape) == 2 else ops.reshape(x, (*ops.shape(inputs)[:-1], x.shape[-1]))


def _product_gradient(upstream, x, kernel, bias):
    import tensorflow as tf

    ones = tf.ones((1, tf.shape(upstream)[0]), upstream.dtype)
    return (
        tf.matmul(upstream, kernel, transpose_b=True),
        tf.matmul(x, upstream, transpose_a=True),
        tf.matmul(ones, upstream)[0],
    )


@custom_gradient(_product_gradient)
def _product(x, kernel, bias):  # [n, H], [H, u], [u]
    import tensorflow as tf

    return tf.nn.bias_add(tf.matmul(x, kernel), bias), ()  # which TensorFlow's graph optimiser fuses
