"""Logits of a classifier → label and probabilities.

Shapes: B batch, N labels.
"""

import keras
import tensorflow as tf

from kbert.answers.answers import Answers
from kbert.answers.pool_windows import check_window_pooling, pool_windows, pooled_size


@keras.saving.register_keras_serializable("kbert")
class ClassificationAnswers(Answers):
    """Each row's most probable label, as a string, and the probabilities of all labels.

    Args:
        labels: list of N strings, in the order of the logits.
        window_pooling: "max" or "mean": the logits are of windows of texts, and pooled; None: of whole texts.
        **kwargs: name, dtype, trainable.

    Call arguments:
        outputs: dict with ``logits`` [B, N]; of windows [W, N].
        batch: with `window_pooling` what `DocumentPreprocessor` returned; otherwise not needed.

    Returns:
        dict of ``label`` string [B] (the first of equally probable ones) and ``probabilities`` float32 [B, N].

    Raises:
        ValueError: no labels, or not as many as logits; an unknown pooling.

    Example::

        ClassificationAnswers(["bad", "good"])({"logits": tf.constant([[0.0, 3.0]])})["label"]  # [b"good"]
    """

    option_names = ("labels", "window_pooling")

    def __init__(self, labels, window_pooling=None, **kwargs):
        super().__init__(**kwargs)
        if isinstance(labels, str) or not labels or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"ClassificationAnswers: `labels` must be a list of strings. Received: {labels!r}")
        check_window_pooling(window_pooling, "ClassificationAnswers")
        self.labels = tuple(labels)
        self.window_pooling = window_pooling

    def call(self, outputs, batch=None):
        logits = tf.cast(outputs["logits"], tf.float32)  # [B, N]
        self._check(logits.shape)
        logits = pool_windows(logits, batch, self.window_pooling)
        labels = tf.gather(tf.constant(self.labels), tf.argmax(logits, axis=-1, output_type=tf.int32))
        return {"label": labels, "probabilities": tf.nn.softmax(logits)}

    def compute_output_spec(self, outputs, batch=None):
        shape = outputs["logits"].shape
        self._check(shape)
        shape = (pooled_size(shape[0], batch, self.window_pooling), *shape[1:])
        return {
            "label": keras.KerasTensor(shape[:-1], dtype="string"),
            "probabilities": keras.KerasTensor(shape, dtype="float32"),
        }

    def _check(self, shape):
        if shape[-1] not in (None, len(self.labels)):
            raise ValueError(
                f"ClassificationAnswers: expected as many labels as logits ({shape[-1]}). Received: {list(self.labels)}"
            )

    def to_dicts(self, answers):
        """``label``, and ``probabilities``: label → number."""
        for label, probabilities in zip(answers["label"], answers["probabilities"].tolist(), strict=True):
            yield {"label": label, "probabilities": dict(zip(self.labels, probabilities, strict=True))}

    def table_row(self, row):
        probabilities = {f"probability_{label}": value for label, value in row["probabilities"].items()}
        return {name: value for name, value in row.items() if name != "probabilities"} | probabilities
