"""Metrics that sum over all batches and divide once at the end: correct for partial batches and for replicas.

They use sample weights, so pass them as `model.compile(weighted_metrics=...)`.

Shapes: B batch, S sequence, P predictions, N labels, V vocabulary; "..." is any number of axes.
"""

from typing import Any

import keras
from keras import ops

from kbert.keras_compat import Tensor, set_direction
from kbert.optim.cross_entropy import (
    broadcast_weights,
    cross_entropy,
    labels_and_weights,
    on_or_off,
    without_padding,
)


class WeightedMean(keras.metrics.Mean):
    """Base of the metrics here: (sum of weight * value) / (sum of weights), 0 before the first batch.

    Subclasses define `values_and_weights`, `default_name` and `lower_is_better`, which callbacks such as
    ``keras.callbacks.EarlyStopping("val_accuracy")`` ask for.
    """

    default_name: str | None = None
    lower_is_better: bool = False

    def __init__(self, name: str | None = None):
        super().__init__(name=name or self.default_name, dtype="float32")
        set_direction(self, "down" if self.lower_is_better else "up")

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        values, weights = self.values_and_weights(y_true, y_pred, sample_weight)
        super().update_state(ops.reshape(values, (-1,)), ops.reshape(weights, (-1,)))  # of rows it would take means

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name}


@keras.saving.register_keras_serializable("kbert")
class CrossEntropy(WeightedMean):
    """Mean negative log-likelihood over all labels seen, in nats: the masked-LM loss of a whole evaluation.

    It is NaN after a label that is neither -1 nor a class. (The loss that Keras reports is a mean of the batches'
    means, in which all batches count alike, however many labels they have.)

    Inputs:
        y_true: integers [...], -1 = no label.
        y_pred: logits [..., N].
        sample_weight: floats [...] or None.

    Example::

        model.compile(AdamW(1e-4), losses, weighted_metrics={"mlm_logits": [CrossEntropy()]})
    """

    default_name = "cross_entropy"
    lower_is_better = True

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        return cross_entropy(y_true, y_pred, sample_weight)


@keras.saving.register_keras_serializable("kbert")
class Perplexity(CrossEntropy):
    """exp of the mean negative log-likelihood over all labels, at most e^88 (the limit of float32).

    It is 0 before the first label.

    Inputs: as `CrossEntropy`.

    Example::

        model.compile(AdamW(1e-4), losses, weighted_metrics={"mlm_logits": [Perplexity()]})
    """

    default_name = "perplexity"

    def result(self) -> Tensor:
        seen = ops.convert_to_tensor(self.count) > 0
        return ops.where(seen, ops.exp(ops.minimum(super().result(), 88.0)), 0.0)


@keras.saving.register_keras_serializable("kbert")
class WeightedAccuracy(WeightedMean):
    """Fraction of labels that have the highest logit. A label that is neither -1 nor a class counts as wrong.

    Inputs:
        y_true: integers [...], -1 = no label.
        y_pred: logits [..., N].
        sample_weight: floats [...] or None.

    Example::

        BertClassifier(config).compile(AdamW(2e-5), losses, weighted_metrics=[WeightedAccuracy()])
    """

    default_name = "accuracy"

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        labels, weights, is_wrong = labels_and_weights(y_true, y_pred, sample_weight)
        is_hit = ops.logical_and(ops.equal(_argmax(y_pred), labels), ops.logical_not(is_wrong))
        return ops.cast(is_hit, "float32"), weights


@keras.saving.register_keras_serializable("kbert")
class SpanAccuracy(WeightedAccuracy):
    """Fraction of answers whose start (or end) has the highest logit.

    Inputs:
        y_true: positions [B], or [B, 2] with each row's length, as `kbert.optim.SpanLoss`.
        y_pred: logits [B, S].
        sample_weight: floats [B] or None.

    Example::

        model.compile(AdamW(5e-5), losses, weighted_metrics={"start_logits": [SpanAccuracy()]})
    """

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        return super().values_and_weights(*without_padding(y_true, y_pred), sample_weight)


@keras.saving.register_keras_serializable("kbert")
class MultiLabelAccuracy(WeightedMean):
    """Fraction of all labels, each on or off, that are predicted correctly at a threshold of 0.5.

    Inputs:
        y_true: numbers [B, N], 1 = on, 0 = off, -1 = not known.
        y_pred: logits [B, N].
        sample_weight: floats [B] or [B, N], or None.

    Example::

        BertClassifier(config, multi_label=True).compile(AdamW(2e-5), losses, weighted_metrics=[MultiLabelAccuracy()])
    """

    default_name = "accuracy"

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        labels, logits, weights, is_wrong = on_or_off(y_true, y_pred, sample_weight)
        is_hit = ops.logical_and(ops.equal(logits > 0.0, labels > 0.5), ops.logical_not(is_wrong))
        return ops.cast(is_hit, "float32"), weights


@keras.saving.register_keras_serializable("kbert")
class SquaredError(WeightedMean):
    """Mean squared error over all examples.

    Inputs:
        y_true: floats [B].
        y_pred: floats [B].
        sample_weight: floats [B] or None.

    Example::

        BertRegressor(config).compile(AdamW(2e-5), losses, weighted_metrics=[SquaredError()])
    """

    default_name = "squared_error"
    lower_is_better = True

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        return squared_errors(y_true, y_pred, sample_weight)


def squared_errors(y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """(squared error, weight) of each number, float32 [B]."""
    y_pred = ops.cast(y_pred, "float32")
    values = ops.square(ops.reshape(ops.cast(y_true, "float32"), ops.shape(y_pred)) - y_pred)
    return values, broadcast_weights(sample_weight, values)


def _argmax(logits):
    """Index of the largest logit, int32 [...]. On TensorFlow ops.argmax would copy the logits three times."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.argmax(logits, axis=-1, output_type=tf.int32)
    return ops.cast(ops.argmax(logits, axis=-1), "int32")
