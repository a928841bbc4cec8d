"""Logits → labels, numbers and choices.

Shapes: B batch, W windows, N labels, C choices, S sequence.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from kbert.answers.answers import Answers, check_number, single_values
from kbert.checks import check_labels
from kbert.keras_compat import Tensor


class TextAnswers(Answers):
    """Base class of answers to texts, or to long texts by the scores of their windows."""

    def __init__(self, window_pooling: str | None = None, **kwargs):
        super().__init__(**kwargs)
        if window_pooling not in (None, "max", "mean"):
            raise ValueError(
                f"{type(self).__name__}: `window_pooling` must be None or one of ('max', 'mean'). "
                f"Received: {window_pooling!r}"
            )
        self.window_pooling = window_pooling

    def pool(self, scores: tf.Tensor, batch: Mapping[str, Tensor] | None) -> tf.Tensor:
        """Scores of windows, [W] or [W, N], as those of their texts, float32 [B] or [B, N]."""
        scores = tf.cast(scores, tf.float32)
        if self.window_pooling is None:
            return scores
        pool = tf.math.unsorted_segment_max if self.window_pooling == "max" else tf.math.unsorted_segment_mean
        return pool(scores, batch["window_row"], tf.size(batch["text"]))


class LabelAnswers(TextAnswers):
    """Base class of answers with the probability of each label."""

    def __init__(self, labels: Sequence[str] | np.ndarray, window_pooling: str | None = None, **kwargs):
        super().__init__(window_pooling, **kwargs)
        self.labels = tuple(check_labels(labels, type(self).__name__))

    def text_logits(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor] | None) -> tf.Tensor:
        """The logits of each text, float32 [B, N]."""
        check_number(self.labels, outputs["logits"].shape, type(self).__name__)
        return self.pool(outputs["logits"], batch)

    def by_label(self, probabilities: Iterable[float]) -> dict[str, float]:
        """label → probability."""
        return dict(zip(self.labels, probabilities, strict=True))

    def table_row(self, row: dict[str, Any]) -> dict[str, Any]:
        cells = {name: "|".join(value) if isinstance(value, list) else value for name, value in row.items()}
        probabilities = cells.pop("probabilities")
        return cells | {f"probability_{label}": value for label, value in probabilities.items()}


@keras.saving.register_keras_serializable("kbert")
class ClassificationAnswers(LabelAnswers):
    """Each row's most probable label, as a string, and the probabilities of all labels.

    Args:
        labels: list of N strings, in the order of the logits.
        window_pooling: "max" or "mean" if the logits are of windows, which are pooled. None: of whole texts.
        **kwargs: name, dtype, trainable.

    Inputs:
        outputs: dict with ``logits`` [B, N], of windows [W, N].
        batch: with `window_pooling` what `DocumentPreprocessor` returned. Otherwise it is not needed.

    Returns:
        dict of ``label`` string [B] (the first of equally probable ones) and ``probabilities`` float32 [B, N].

    Raises:
        ValueError: no labels, not as many as logits, or an unknown pooling.

    Example::

        ClassificationAnswers(["bad", "good"])({"logits": tf.constant([[0.0, 3.0]])})["label"]  # [b"good"]
    """

    option_names = ("labels", "window_pooling")

    def call(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor] | None = None) -> dict[str, tf.Tensor]:
        logits = self.text_logits(outputs, batch)  # [B, N]
        labels = tf.gather(tf.constant(self.labels), tf.argmax(logits, axis=-1, output_type=tf.int32))
        return {"label": labels, "probabilities": tf.nn.softmax(logits)}

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """``label``, and ``probabilities``: label → number."""
        for label, probabilities in zip(answers["label"], answers["probabilities"].tolist(), strict=True):
            yield {"label": label, "probabilities": self.by_label(probabilities)}


@keras.saving.register_keras_serializable("kbert")
class MultiLabelAnswers(LabelAnswers):
    """Each row's labels whose probability exceeds their threshold, and the probabilities of all labels.

    Args:
        labels: list of N strings, in the order of the logits.
        thresholds: list of N numbers in (0, 1). None: 0.5 each.
        window_pooling: "max" or "mean" if the logits are of windows, which are pooled. None: of whole texts.
        **kwargs: name, dtype, trainable.

    Inputs:
        outputs: dict with ``logits`` [B, N], of windows [W, N].
        batch: with `window_pooling` what `DocumentPreprocessor` returned. Otherwise it is not needed.

    Outputs: dict of ``is_on`` bool [B, N] and ``probabilities`` float32 [B, N], each of a sigmoid.

    Raises:
        ValueError: no labels, not as many labels or thresholds as logits, a threshold outside (0, 1), or an unknown
            pooling.

    Example::

        MultiLabelAnswers(["funny", "sad"])({"logits": tf.constant([[2.0, -3.0]])})["is_on"]  # [[True, False]]
    """

    option_names = ("labels", "thresholds", "window_pooling")

    def __init__(
        self,
        labels: Sequence[str] | np.ndarray,
        thresholds: Sequence[float] | None = None,
        window_pooling: str | None = None,
        **kwargs,
    ):
        super().__init__(labels, window_pooling, **kwargs)
        if thresholds is not None and (len(thresholds) != len(labels) or not all(0.0 < x < 1.0 for x in thresholds)):
            raise ValueError(
                f"MultiLabelAnswers: `thresholds` must be {len(labels)} numbers in (0, 1). Received: {thresholds!r}"
            )
        self.thresholds = None if thresholds is None else tuple(map(float, thresholds))

    def call(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor] | None = None) -> dict[str, tf.Tensor]:
        probabilities = tf.sigmoid(self.text_logits(outputs, batch))  # [B, N]
        return {"is_on": probabilities > tf.constant(self.thresholds or 0.5), "probabilities": probabilities}

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The ``labels`` that are on, and ``probabilities``: label → number."""
        for is_on, probabilities in zip(answers["is_on"].tolist(), answers["probabilities"].tolist(), strict=True):
            labels = [label for label, on in zip(self.labels, is_on, strict=True) if on]
            yield {"labels": labels, "probabilities": self.by_label(probabilities)}


@keras.saving.register_keras_serializable("kbert")
class RegressionAnswers(TextAnswers):
    """The model's score, in float32.

    Args:
        window_pooling: "max" or "mean" if the scores are of windows, which are pooled. None: of whole texts.
        **kwargs: name, dtype, trainable.

    Inputs:
        outputs: dict with ``score`` [B], of windows [W].
        batch: with `window_pooling` what `DocumentPreprocessor` returned. Otherwise it is not needed.

    Returns:
        dict of ``score`` float32 [B].

    Raises:
        ValueError: an unknown pooling.

    Example::

        RegressionAnswers()({"score": tf.constant([2.5])})["score"]  # [2.5]
    """

    option_names = ("window_pooling",)

    def call(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor] | None = None) -> dict[str, tf.Tensor]:
        return {"score": self.pool(outputs["score"], batch)}

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """``score``."""
        return single_values(answers, "score")


@keras.saving.register_keras_serializable("kbert")
class ChoiceAnswers(Answers):
    """The number of each row's most probable choice, and the probabilities of all.

    Inputs:
        outputs: dict with ``logits`` [B, C].
        batch: dict with ``padding_mask`` bool [B, C, S]. A row that is all False is not a choice.

    Returns:
        dict of ``choice`` int32 [B], counted from 0, and ``probabilities`` float32 [B, C], 0 for absent choices. Of
            equally probable choices the first is taken. Without any choice it is -1, and all probabilities are 0.

    Example::

        batch = {"padding_mask": tf.constant([[[True], [True]]])}
        ChoiceAnswers()({"logits": tf.constant([[0.0, 3.0]])}, batch)["choice"]  # [1]
    """

    fits_table = False

    def call(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> dict[str, tf.Tensor]:
        is_choice = tf.reduce_any(tf.cast(batch["padding_mask"], tf.bool), axis=-1)  # [B, C]
        logits = tf.where(is_choice, tf.cast(outputs["logits"], tf.float32), tf.float32.min)
        probabilities = tf.where(is_choice, tf.nn.softmax(logits), 0.0)
        number = tf.range(tf.shape(logits)[1])  # not an argmax, which has no answer where C is 0
        is_best = is_choice & (logits == tf.reduce_max(logits, axis=-1, keepdims=True))
        first = tf.reduce_min(tf.where(is_best, number, tf.int32.max), axis=-1)  # [B]
        return {"choice": tf.where(tf.reduce_any(is_choice, axis=-1), first, -1), "probabilities": probabilities}

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """``choice``, counted from 0, and ``probabilities``, a list with 0 for absent choices."""
        for choice, probabilities in zip(answers["choice"].tolist(), answers["probabilities"].tolist(), strict=True):
            yield {"choice": choice, "probabilities": probabilities}
