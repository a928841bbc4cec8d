"""The score of a regressor, as an answer.

Shapes: B batch.
"""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("kbert")
class RegressionAnswers(keras.layers.Layer):
    """Hands the model's score on, in float32.

    Call arguments:
        outputs: dict with ``score`` [B].
        batch: what the model was given; not needed here.

    Returns:
        dict of ``score`` float32 [B].

    Example::

        RegressionAnswers()({"score": tf.constant([2.5])})["score"]  # [2.5]
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._convert_input_args = False  # a mixed dtype policy must not cast the scores

    def call(self, outputs, batch=None):
        return {"score": tf.cast(outputs["score"], tf.float32)}

    def compute_output_spec(self, outputs, batch=None):
        return {"score": keras.KerasTensor(outputs["score"].shape, dtype="float32")}
