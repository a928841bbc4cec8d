"""Logits of a multi-label classifier → which labels are on, and probabilities.

Shapes: B batch, W windows, N labels.
"""

import keras
import tensorflow as tf

from kbert.answers.label_answers import LabelAnswers


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

    def __init__(self, labels, thresholds=None, window_pooling=None, **kwargs):
        super().__init__(labels, window_pooling, **kwargs)
        if thresholds is not None and (len(thresholds) != len(labels) or not all(0.0 < x < 1.0 for x in thresholds)):
            raise ValueError(
                f"MultiLabelAnswers: `thresholds` must be {len(labels)} numbers in (0, 1). Received: {thresholds!r}"
            )
        self.thresholds = None if thresholds is None else tuple(map(float, thresholds))

    def call(self, outputs, batch=None):
        probabilities = tf.sigmoid(self.text_logits(outputs, batch))  # [B, N]
        return {"is_on": probabilities > tf.constant(self.thresholds or 0.5), "probabilities": probabilities}

    def compute_output_spec(self, outputs, batch=None):
        shape = self.text_shape(outputs, batch)
        types = {"is_on": "bool", "probabilities": "float32"}
        return {name: keras.KerasTensor(shape, dtype=dtype) for name, dtype in types.items()}

    def to_dicts(self, answers):
        """The ``labels`` that are on, and ``probabilities``: label → number."""
        for is_on, probabilities in zip(answers["is_on"].tolist(), answers["probabilities"].tolist(), strict=True):
            labels = [label for label, on in zip(self.labels, is_on, strict=True) if on]
            yield {"labels": labels, "probabilities": self.by_label(probabilities)}
