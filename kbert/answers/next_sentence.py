"""Next-sentence logits → the probability that the second text follows the first.

Shapes: B batch.
"""

import keras
import tensorflow as tf

from kbert.answers.answers import Answers, single_values


@keras.saving.register_keras_serializable("kbert")
class NextSentenceAnswers(Answers):
    """The probability of IsNext, which is index 0 of the logits.

    Inputs:
        outputs: dict with ``nsp_logits`` [B, 2].
        batch: not used.

    Returns:
        dict of ``is_next`` float32 [B].

    Source: Devlin et al. 2018, section 3.1, task 2; Google's ``create_pretraining_data.py`` for the order of the two.

    Example::

        NextSentenceAnswers()({"nsp_logits": tf.constant([[2.0, 0.0]])})["is_next"]  # [0.88]
    """

    def call(self, outputs, batch=None):
        return {"is_next": tf.nn.softmax(tf.cast(outputs["nsp_logits"], tf.float32))[:, 0]}

    def compute_output_spec(self, outputs, batch=None):
        return {"is_next": keras.KerasTensor(outputs["nsp_logits"].shape[:1], dtype="float32")}

    def to_dicts(self, answers):
        """``is_next``."""
        return single_values(answers, "is_next")
