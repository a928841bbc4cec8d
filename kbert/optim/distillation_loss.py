"""The loss of a student: labels, and the answers of a teacher.

Shapes: B batch, S sequence, N labels, h numbers of a label; "..." is any number of axes.
"""

from typing import Any, Self

import keras
from keras import ops

from kbert.keras_compat import Tensor, deserialize
from kbert.optim.cross_entropy import broadcast_weights
from kbert.optim.losses import MultiLabelLoss, RegressionLoss, SpanLoss, WeightedMeanLoss

_MASKED = -1e9


@keras.saving.register_keras_serializable("kbert")
class DistillationLoss(WeightedMeanLoss):
    """`hard_fraction` times the loss of the labels, plus the rest times the distance to the teacher's answers.

    The distance of classes, positions and labels that are on or off is the Kullback-Leibler divergence of the teacher's
    distribution and the student's, both at `temperature`, times its square, which keeps the gradient's scale. The
    distance of scores is the squared error. An example without a label has the second part alone.

    Args:
        loss: the loss of the labels: `ClassificationLoss`, `MultiLabelLoss`, `SpanLoss` or `RegressionLoss`.
        temperature: what the logits of both are divided by.
        hard_fraction: the fraction of the labels, from 0 to 1.

    Inputs:
        y_true: float [..., h + N]. First the label as `loss` takes it: a class number, a score, N labels that are on or
            off, or for spans position and length. Its first number is NaN where there is no label. Then the teacher's
            logits, or its score. Of spans these are the S logits of a row, of which a trimmed batch reads the first.
        y_pred: logits [..., N], or scores [B].
        sample_weight: floats [...] or None.

    Outputs: float32 [].

    Source: Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network".

    Example::

        DistillationLoss(ClassificationLoss(), 2.0)([[1, 0.3, 2.0]], logits)  # class 1; the teacher's logits of both
    """

    default_name = "distillation_loss"

    def __init__(
        self, loss: WeightedMeanLoss, temperature: float = 2.0, hard_fraction: float = 0.5, name: str | None = None
    ):
        super().__init__(name)
        self.loss = loss
        self.temperature = temperature
        self.hard_fraction = hard_fraction

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        y_true = ops.cast(y_true, "float32")
        labels, answers = self._divided(y_true, ops.shape(y_pred)[-1])
        finite = ops.where(ops.isfinite(labels), labels, 0.0)
        hard, hard_weights = self.loss.values_and_weights(finite, y_pred, sample_weight)
        is_labelled = ops.isfinite(y_true[:, :1] if isinstance(self.loss, MultiLabelLoss) else y_true[..., 0])
        hard = ops.where(ops.logical_and(is_labelled, hard_weights != 0), hard, 0.0)
        soft = self._distance(labels, answers, ops.cast(y_pred, "float32"))
        return self.hard_fraction * hard + (1.0 - self.hard_fraction) * soft, broadcast_weights(sample_weight, soft)

    def total_weight(self, y_true: Tensor, sample_weight: Tensor | None) -> Tensor:
        labels = y_true[:, : y_true.shape[-1] // 2] if isinstance(self.loss, MultiLabelLoss) else y_true[..., 0]
        return ops.sum(broadcast_weights(sample_weight, labels))

    def _divided(self, y_true, size):
        """The labels, and the answers to as many logits."""
        if isinstance(self.loss, MultiLabelLoss):
            return y_true[:, :size], y_true[:, size:]
        if isinstance(self.loss, SpanLoss):
            return y_true[:, :2], y_true[:, 2 : 2 + size]
        return y_true[..., 0], y_true[:, 1] if isinstance(self.loss, RegressionLoss) else y_true[..., 1:]

    def _distance(self, labels, answers, outputs):
        if isinstance(self.loss, RegressionLoss):
            return ops.square(outputs - answers)
        answers = answers / self.temperature
        outputs = outputs / self.temperature
        scale = self.temperature**2
        if isinstance(self.loss, MultiLabelLoss):
            likely = ops.sigmoid(answers)
            on = ops.log_sigmoid(answers) - ops.log_sigmoid(outputs)
            off = ops.log_sigmoid(-answers) - ops.log_sigmoid(-outputs)
            return scale * (likely * on + (1.0 - likely) * off)
        if isinstance(self.loss, SpanLoss):
            is_token = ops.arange(ops.shape(outputs)[-1]) < ops.cast(labels[:, 1:], "int32")  # [B, S]
            answers, outputs = (ops.where(is_token, logits, _MASKED) for logits in (answers, outputs))
            scale *= 0.5  # the mean of both ends
        wanted = ops.log_softmax(answers, axis=-1)
        return scale * ops.sum(ops.exp(wanted) * (wanted - ops.log_softmax(outputs, axis=-1)), axis=-1)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "loss": keras.saving.serialize_keras_object(self.loss),
            "temperature": self.temperature,
            "hard_fraction": self.hard_fraction,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**{**config, "loss": deserialize(config["loss"])})
