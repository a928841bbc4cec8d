"""Scores of choices → the best one and the probabilities.

Shapes: B batch, C choices, S sequence.
"""

import keras
import tensorflow as tf

from kbert.answers.answers import Answers


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

    def call(self, outputs, batch):
        there = tf.reduce_any(tf.cast(batch["padding_mask"], tf.bool), axis=-1)  # [B, C]
        logits = tf.where(there, tf.cast(outputs["logits"], tf.float32), tf.float32.min)
        probabilities = tf.where(there, tf.nn.softmax(logits), 0.0)
        number = tf.range(tf.shape(logits)[1])  # not an argmax, which has no answer where C is 0
        is_best = there & (logits == tf.reduce_max(logits, axis=-1, keepdims=True))
        first = tf.reduce_min(tf.where(is_best, number, tf.int32.max), axis=-1)  # [B]
        return {"choice": tf.where(tf.reduce_any(there, axis=-1), first, -1), "probabilities": probabilities}

    def compute_output_spec(self, outputs, batch):
        shape = outputs["logits"].shape
        return {
            "choice": keras.KerasTensor(shape[:1], dtype="int32"),
            "probabilities": keras.KerasTensor(shape, dtype="float32"),
        }

    def to_dicts(self, answers):
        """``choice``, counted from 0, and ``probabilities``, a list with 0 for absent choices."""
        for choice, probabilities in zip(answers["choice"].tolist(), answers["probabilities"].tolist(), strict=True):
            yield {"choice": choice, "probabilities": probabilities}
