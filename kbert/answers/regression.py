"""The score of a regressor, as an answer.

Shapes: B batch, W windows.
"""

import keras
import tensorflow as tf

from kbert.answers.answers import Answers, single_values
from kbert.answers.pool_windows import check_window_pooling, pool_windows, pooled_size


@keras.saving.register_keras_serializable("kbert")
class RegressionAnswers(Answers):
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

    def __init__(self, window_pooling=None, **kwargs):
        super().__init__(**kwargs)
        check_window_pooling(window_pooling, "RegressionAnswers")
        self.window_pooling = window_pooling

    def call(self, outputs, batch=None):
        return {"score": pool_windows(tf.cast(outputs["score"], tf.float32), batch, self.window_pooling)}

    def compute_output_spec(self, outputs, batch=None):
        size = pooled_size(outputs["score"].shape[0], batch, self.window_pooling)
        return {"score": keras.KerasTensor((size,), dtype="float32")}

    def to_dicts(self, answers):
        """``score``."""
        return single_values(answers, "score")
