"""The score of a regressor, as an answer.

Shapes: B batch.
"""

import keras
import tensorflow as tf

from kbert.answers.pool_windows import check_windows, pool_windows, pooled_size


@keras.saving.register_keras_serializable("kbert")
class RegressionAnswers(keras.layers.Layer):
    """Hands the model's score on, in float32.

    Args:
        windows: "max" or "mean": the scores are of windows of texts, and pooled; None: of whole texts.
        **kwargs: name, dtype, trainable.

    Call arguments:
        outputs: dict with ``score`` [B].
        batch: with `windows` what `DocumentPreprocessor` gave; else not needed.

    Returns:
        dict of ``score`` float32 [B].

    Example::

        RegressionAnswers()({"score": tf.constant([2.5])})["score"]  # [2.5]
    """

    def __init__(self, windows=None, **kwargs):
        super().__init__(**kwargs)
        check_windows(windows, "RegressionAnswers")
        self.windows = windows
        self._convert_input_args = False  # a mixed dtype policy must not cast the scores

    def call(self, outputs, batch=None):
        return {"score": pool_windows(tf.cast(outputs["score"], tf.float32), batch, self.windows)}

    def compute_output_spec(self, outputs, batch=None):
        size = pooled_size(outputs["score"].shape[0], batch, self.windows)
        return {"score": keras.KerasTensor((size,), dtype="float32")}

    def get_config(self):
        return {**super().get_config(), "windows": self.windows}
