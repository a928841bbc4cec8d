"""A dense layer that LoRA can adapt.

Shapes: ... any leading axes, H inputs, N units, r rank.
"""

import keras
from keras import ops

from kbert.keras_compat import untrack_variable, without_collections
from kbert.layers.dense import product_in_training


@keras.saving.register_keras_serializable("kbert")
class LoraDense(keras.layers.Dense):
    """`keras.layers.Dense` whose low-rank matrices (`enable_lora`) are saved separately and are cheap to train.

    With LoRA the layer computes ``x W + (alpha / r) (x A) B + bias`` with A [H, r] and B [r, N]. Keras' layer adds A B
    to the kernel W first, so that a step computes the gradient of a whole kernel; and it saves that sum and sets A and
    B to zero on loading, where the gradients of both are zero and training cannot continue.

    In training the gradient of the bias is summed in float32 (`kbert.layers.dense`).

    Private: `_kernel`, the variable, where ``kernel`` is the sum of both (Keras 3.15).

    Args:
        *args, **kwargs: those of `keras.layers.Dense`.

    Inputs: float [..., H]. Outputs: float [..., N].

    Raises:
        ValueError: LoRA on an int8 layer, int8 on a layer with LoRA, or LoRA twice.

    Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.

    Example::

        dense = LoraDense(3)
        dense.build((None, 4))
        dense.enable_lora(2)
        dense(keras.ops.ones((2, 4)))  # [2, 3]
    """

    def call(self, inputs, training=None):
        if not self.lora_enabled:
            if training and self.use_bias and keras.backend.backend() == "tensorflow":
                return product_in_training(self, inputs)
            return super().call(inputs, training=training)
        scale = self.lora_alpha / self.lora_rank
        low_rank = ops.matmul(ops.matmul(inputs, self._cast(self.lora_kernel_a)), self._cast(self.lora_kernel_b))
        x = ops.matmul(inputs, self._kernel) + scale * low_rank
        if self.bias is not None:
            x = ops.add(x, self.bias)
        return x if self.activation is None else self.activation(x)

    def _cast(self, matrix):
        return ops.cast(matrix, self.compute_dtype)  # they are float32 under any policy

    def enable_lora(self, rank, lora_alpha=None, **kwargs):
        if self.quantization_mode is not None:
            raise ValueError(f"{self.path}: LoRA needs float weights. Received: {self.quantization_mode} ones.")
        super().enable_lora(rank, lora_alpha, **kwargs)

    def merge_lora(self):
        """Adds the product of the low-rank matrices to the kernel, and removes them."""
        if not self.lora_enabled:
            return
        scale = self.lora_alpha / self.lora_rank
        change = scale * ops.matmul(self.lora_kernel_a, self.lora_kernel_b)
        self._kernel.assign_add(ops.cast(change, self._kernel.dtype))
        self._kernel.trainable = True
        for matrix in (self.lora_kernel_a, self.lora_kernel_b):
            untrack_variable(self, matrix)
        with without_collections():
            del self.lora_kernel_a, self.lora_kernel_b
        self.lora_enabled, self.lora_rank, self.lora_alpha = False, None, None

    def quantize(self, mode=None, type_check=True, config=None):
        if self.lora_enabled:
            raise ValueError(f"{self.path}: a layer with LoRA cannot be quantised. Call `merge_lora()` first.")
        super().quantize(mode, type_check=False, config=config)  # Keras would refuse a class that is not its own

    def save_own_variables(self, store):
        if not self.lora_enabled:
            super().save_own_variables(store)
            return
        for name, variable in self._stored().items():
            store[name] = variable

    def load_own_variables(self, store):
        if not self.lora_enabled:
            super().load_own_variables(store)
            return
        for name, variable in self._stored().items():
            if name in store.keys():
                variable.assign(store[name])
            elif name == "lora_kernel_b":  # saved without LoRA: A stays random, so that B can learn
                variable.assign(ops.zeros_like(variable))

    def _stored(self):
        names = ("_kernel", "bias") if self.use_bias else ("_kernel",)
        own = {str(index): getattr(self, name) for index, name in enumerate(names)}  # as Keras stores them
        return own | {name: getattr(self, name) for name in ("lora_kernel_a", "lora_kernel_b")}
