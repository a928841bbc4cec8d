"""The linear layer on top of BERT that each task adds.

Shapes: H hidden, N labels (outputs).
"""

from typing import Any

import keras
from keras import ops

from kbert.checks import check_option
from kbert.keras_compat import Tensor
from kbert.layers.lora_dense import LoraDense
from kbert.layers.replica_dropout import ReplicaDropout
from kbert.options import Count, FractionBelowOne


@keras.saving.register_keras_serializable("kbert")
class TaskHead(keras.layers.Layer):
    """Dropout, then one linear map H → N with float32 scores: the only new layer of most fine-tuned models.

    Args:
        units: N.
        dropout: rate before the linear map, 0.1 for classifiers, 0 for NSP and spans.
        initializer_stddev: of the kernel.

    Inputs: float [..., H].

    Outputs: float32 [..., N].

    Raises:
        ValueError: `units` is not a positive integer, or `dropout` not a number in [0, 1).

    Source: section 3.2 and appendix B; Google's ``run_classifier.py``, ``run_squad.py`` and ``run_pretraining.py``.

    Example::

        TaskHead(3)(keras.ops.ones((2, 4)))  # [2, 3]
    """

    def __init__(self, units: int, dropout: float = 0.0, initializer_stddev: float = 0.02, **kwargs):
        super().__init__(**kwargs)
        self.units = check_option("TaskHead", "units", units, Count)
        self.dropout_rate = check_option("TaskHead", "dropout", dropout, FractionBelowOne)
        self.initializer_stddev = initializer_stddev
        self.dropout = ReplicaDropout(self.dropout_rate, dtype=self.dtype_policy, name="dropout")
        self.supports_masking = True

    def build(self, input_shape) -> None:
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_stddev)
        self.dense = LoraDense(self.units, kernel_initializer=initializer, dtype=self.dtype_policy, name="dense")
        self.dense.build(input_shape)
        self.dropout.build(input_shape)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        kept = self.dropout(inputs, training=training)
        return ops.cast(self.dense(kept, training=training), "float32")  # [..., N]

    def compute_mask(self, inputs, previous_mask) -> None:
        return None  # the mask of an LSTM below ends here: the sample weights say which scores count

    def compute_output_spec(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        return keras.KerasTensor((*inputs.shape[:-1], self.units), dtype="float32")

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "units": self.units,
            "dropout": self.dropout_rate,
            "initializer_stddev": self.initializer_stddev,
        }
