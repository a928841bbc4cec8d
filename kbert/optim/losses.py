"""The losses BERT is trained with, in float32 and as means over the whole batch, also if replicas share it.

Keras divides a loss by the number of replicas and adds up their gradients, which is right only if all replicas have
equal sums of weights. These losses divide by the sum over all replicas instead, so that two replicas train like one.

Shapes: B batch, S sequence, P predictions, K parts of a packed row, C choices, N labels, V vocabulary; "..." is any
number of axes.
"""

import dataclasses
from typing import Any, Self

import keras
from keras import ops

from kbert.keras_compat import Tensor
from kbert.optim.cross_entropy import IGNORED_LABEL, broadcast_weights, cross_entropy, on_or_off, without_padding
from kbert.optim.metrics import squared_errors
from kbert.optim.replicas import count_replicas, sum_over_replicas


class WeightedMeanLoss(keras.losses.Loss):
    """Base of the losses here: (sum of weight * value) / (sum of weights + `epsilon`) over the global batch.

    Under `tf.distribute` the gradient is this replica's part of the gradient of that mean. The value, once Keras has
    averaged it over replicas, is the mean itself, even if the last batch is split unevenly.

    Unlike Keras' losses these have no `reduction` and `dtype`: they always compute this mean, in float32. Subclasses
    define `values_and_weights`.
    """

    default_name: str | None = None
    epsilon: float = 0.0
    ignored_label: int | None = IGNORED_LABEL  # has no weight; None: every label has
    whole_batch = None  # a `WholeBatch` while a part of one is computed

    def __init__(self, name: str | None = None):
        super().__init__(name=name or self.default_name)

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        with keras.name_scope(self.name):
            values, weights = self.values_and_weights(y_true, y_pred, sample_weight)
            if self.whole_batch is None:
                return _global_mean(ops.sum(values * weights), ops.sum(weights), self.epsilon)
            return self.whole_batch.share(ops.sum(values * weights), self.epsilon)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        values, weights = self.values_and_weights(y_true, y_pred, None)
        return values * weights

    def __copy__(self) -> Self:  # Keras' goes through a file in memory, for which a class must be registered
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def total_weight(self, y_true: Tensor, sample_weight: Tensor | None) -> Tensor:
        """float32 []: the sum of the weights that `values_and_weights` gives, which do not depend on `y_pred`."""
        weights = broadcast_weights(sample_weight, y_true)
        if self.ignored_label is not None:
            weights *= ops.cast(ops.not_equal(y_true, self.ignored_label), "float32")
        return ops.sum(weights)

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name}


@keras.saving.register_keras_serializable("kbert")
class ClassificationLoss(WeightedMeanLoss):
    """Weighted mean cross-entropy of integer labels: classification, tagging (by token), multiple choice.

    The label -1 means "no label". It is excluded from both sums, like labels of weight 0. Without any label the loss is
    0. Any other label outside [0, N) makes the loss NaN: a compiled step cannot raise an error, and kbert's training
    stops at a NaN. (`fit` of kbert's models finds such labels beforehand if it can read them.)

    Inputs:
        y_true: integers [...].
        y_pred: logits [..., N].
        sample_weight: floats [...], or fewer axes, or None.

    Outputs: float32 [].

    Source: Devlin et al. 2018, section 4.

    Example::

        BertClassifier(config, num_labels=3).compile(AdamW(2e-5), loss={"logits": ClassificationLoss()})
    """

    default_name = "classification_loss"

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        return cross_entropy(y_true, y_pred, sample_weight)


@keras.saving.register_keras_serializable("kbert")
class NextSentenceLoss(ClassificationLoss):
    """Mean cross-entropy of next sentence prediction. Label 0 is the next sentence, 1 a random one.

    Inputs:
        y_true: integers [B] or [B, K].
        y_pred: logits [B, 2] or [B, K, 2].
        sample_weight: floats of the shape of y_true, or None.

    Outputs: float32 [].

    Source: Devlin et al. 2018, section 3.1, task 2.

    Example::

        model.compile(AdamW(1e-4), loss={"mlm_logits": MaskedLanguageModelLoss(), "nsp_logits": NextSentenceLoss()})
    """

    default_name = "next_sentence_loss"


@keras.saving.register_keras_serializable("kbert")
class MaskedLanguageModelLoss(ClassificationLoss):
    """Cross-entropy of the masked tokens: sum of w * nll / (sum of w + 1e-5) over the batch, w the prediction weights.

    Unlike Keras' mean it is not divided by the number of prediction slots, of which some are empty.

    Inputs:
        y_true: token ids [B, P].
        y_pred: logits [B, P, V].
        sample_weight: prediction weights [B, P], 0 at empty slots.

    Outputs: float32 [].

    Source: google-research/bert, run_pretraining.py, get_masked_lm_output.

    Example::

        model.compile(AdamW(1e-4), loss={"mlm_logits": MaskedLanguageModelLoss(), "nsp_logits": NextSentenceLoss()})
        model.fit(pretraining_dataset(...))  # which yields the weights as sample_weight["mlm_logits"]
    """

    epsilon = 1e-5
    default_name = "masked_lm_loss"


@keras.saving.register_keras_serializable("kbert")
class SpanLoss(ClassificationLoss):
    """Half the mean cross-entropy of one end of the answer. Used on both ends it adds up to their mean.

    With positions alone, all S logits count, padding too, as in the original. With each row's length beside its
    position, the logits of padding are excluded, so that a batch trimmed to its longest row has the loss of the padded
    one. A position beyond the row's end (or S) makes the loss NaN. -1 means "no position": see `ClassificationLoss`.

    Inputs:
        y_true: positions [B], or [B, 2] (position, length of the row).
        y_pred: logits [B, S].
        sample_weight: floats [B] or None.

    Outputs: float32 [].

    Source: google-research/bert, run_squad.py: (start_loss + end_loss) / 2.

    Example::

        BertSpanExtractor(config).compile(AdamW(5e-5), loss={"start_logits": SpanLoss(), "end_logits": SpanLoss()})
    """

    default_name = "span_loss"

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        values, weights = super().values_and_weights(*without_padding(y_true, y_pred), sample_weight)
        return 0.5 * values, weights

    def total_weight(self, y_true: Tensor, sample_weight: Tensor | None) -> Tensor:
        return super().total_weight(y_true if len(y_true.shape) == 1 else y_true[:, 0], sample_weight)


@keras.saving.register_keras_serializable("kbert")
class MultiLabelLoss(WeightedMeanLoss):
    """Weighted mean binary cross-entropy of the labels of each row, which are on or off independently.

    The label -1 means "not known" and is excluded from both sums. Any other number outside [0, 1] makes the loss NaN.

    Inputs:
        y_true: numbers [B, N], 1 = on, 0 = off. Between them it is a probability.
        y_pred: logits [B, N].
        sample_weight: floats [B] or [B, N], or None.

    Outputs: float32 [].

    Example::

        BertClassifier(config, num_labels=3, multi_label=True).compile(AdamW(2e-5), loss={"logits": MultiLabelLoss()})
    """

    default_name = "multi_label_loss"

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        labels, logits, weights, is_wrong = on_or_off(y_true, y_pred, sample_weight)
        values = ops.maximum(logits, 0.0) - logits * labels + ops.log1p(ops.exp(-ops.abs(logits)))
        return ops.where(is_wrong, float("nan"), values), weights


@keras.saving.register_keras_serializable("kbert")
class RegressionLoss(WeightedMeanLoss):
    """Weighted mean squared error of one number per example. A NaN among the labels makes it NaN.

    Inputs:
        y_true: floats [B].
        y_pred: floats [B].
        sample_weight: floats [B] or None.

    Outputs: float32 [].

    Example::

        BertRegressor(config).compile(AdamW(2e-5), loss={"score": RegressionLoss()})
    """

    ignored_label = None

    default_name = "regression_loss"

    def values_and_weights(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        return squared_errors(y_true, y_pred, sample_weight)


def _global_mean(total, weight, epsilon):
    replicas = count_replicas()
    if replicas == 1:
        return ops.divide_no_nan(total, weight + epsilon)
    # The sums over replicas carry no gradient: each replica adds its own part, and Keras adds up the parts.
    all_total, all_weight = sum_over_replicas([total, weight])
    share = ops.divide_no_nan(total, all_weight + epsilon)
    mean = ops.divide_no_nan(all_total, all_weight + epsilon)
    # Keras reports the mean over replicas of `replicas` times this value, so each has to carry an equal part.
    return share + ops.stop_gradient(mean / replicas - share)


@dataclasses.dataclass(frozen=True)
class WholeBatch:
    """What a micro-batch of a replica must know of the whole batch, of all replicas.

    Attributes:
        weight: float32 [], its sum of weights.
        micro_batches: int, into how many a replica divides its rows.
        rows: float32 [], the rows of an average replica, as a multiple of this one's.
    """

    weight: object
    micro_batches: int
    rows: object

    def share(self, total: Tensor, epsilon: float) -> Tensor:
        """The loss of a micro-batch: the mean of its gradient over micro-batches is the whole batch's.

        The mean of its value is the whole batch's too, where Keras weighs the replicas' values with their rows.
        """
        share = self.micro_batches * ops.divide_no_nan(total, self.weight + epsilon)
        return share + ops.stop_gradient(share * (self.rows - 1.0))
