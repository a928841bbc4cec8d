"""Logits of a classifier → label and probabilities.

Shapes: B batch, W windows, N labels.
"""

import keras
import tensorflow as tf

from kbert.answers.label_answers import LabelAnswers


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

    def call(self, outputs, batch=None):
        logits = self.text_logits(outputs, batch)  # [B, N]
        labels = tf.gather(tf.constant(self.labels), tf.argmax(logits, axis=-1, output_type=tf.int32))
        return {"label": labels, "probabilities": tf.nn.softmax(logits)}

    def compute_output_spec(self, outputs, batch=None):
        shape = self.text_shape(outputs, batch)
        return {
            "label": keras.KerasTensor(shape[:-1], dtype="string"),
            "probabilities": keras.KerasTensor(shape, dtype="float32"),
        }

    def to_dicts(self, answers):
        """``label``, and ``probabilities``: label → number."""
        for label, probabilities in zip(answers["label"], answers["probabilities"].tolist(), strict=True):
            yield {"label": label, "probabilities": self.by_label(probabilities)}
