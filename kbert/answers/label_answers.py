"""What the answers of classifiers share, with one label a text or several.

Shapes: B batch, W windows, N labels.
"""

import tensorflow as tf

from kbert.answers.answers import Answers, check_number
from kbert.answers.pool_windows import check_window_pooling, pool_windows, pooled_size
from kbert.checks import check_labels


class LabelAnswers(Answers):
    """Base class of answers with the probability of each label."""

    def __init__(self, labels, window_pooling=None, **kwargs):
        super().__init__(**kwargs)
        owner = type(self).__name__
        check_window_pooling(window_pooling, owner)
        self.labels = tuple(check_labels(labels, owner))
        self.window_pooling = window_pooling

    def text_logits(self, outputs, batch):
        """The logits of each text, float32 [B, N]."""
        logits = tf.cast(outputs["logits"], tf.float32)
        check_number(self.labels, logits.shape, type(self).__name__)
        return pool_windows(logits, batch, self.window_pooling)

    def text_shape(self, outputs, batch):
        """The shape of `text_logits` of symbolic outputs."""
        shape = outputs["logits"].shape
        check_number(self.labels, shape, type(self).__name__)
        return (pooled_size(shape[0], batch, self.window_pooling), *shape[1:])

    def by_label(self, probabilities):
        """label → probability."""
        return dict(zip(self.labels, probabilities, strict=True))

    def table_row(self, row):
        cells = {name: "|".join(value) if isinstance(value, list) else value for name, value in row.items()}
        probabilities = cells.pop("probabilities")
        return cells | {f"probability_{label}": value for label, value in probabilities.items()}
