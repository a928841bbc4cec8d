"""A model's score on labelled texts.

Shapes: N labels.
"""

from collections.abc import Sequence

import numpy as np

from kbert.optim.cross_entropy import check_labels
from kbert.tasks.finetuning_data import evaluation_dataset
from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.metrics import METRICS, mean_squared_error


def evaluate(model, preprocessor, examples: LabelledText, metrics: Sequence[str], *, batch_size: int = 32) -> dict:
    """Predicts every example and compares.

    Args:
        model: `BertClassifier` or `BertRegressor`.
        preprocessor: the pipeline's, from strings to the model's batch.
        examples: texts with their labels.
        metrics: names of `kbert.tasks.metrics.METRICS`.
        batch_size: examples a forward pass; no metric depends on it.

    Returns:
        ``{"examples": count, "loss": cross entropy or squared error, <metric>: …}``, floats.

    Raises:
        ValueError: a label that is not in [0, N).

    Example::

        evaluate(pipeline.model, pipeline.preprocessor, examples, ["accuracy"])  # {"examples": 872, "loss": …}
    """
    if not examples.regression:
        check_labels(examples.labels, model.num_labels)
    data = evaluation_dataset(examples, preprocessor, batch_size=batch_size)
    outputs = model.predict(data, verbose=0)
    predictions = np.asarray(outputs["score" if examples.regression else "logits"])[: len(examples)].astype("float64")
    labels = examples.labels
    if examples.regression:
        loss = mean_squared_error(labels, predictions)
    else:
        loss = _cross_entropy(labels, predictions)
        predictions = np.argmax(predictions, axis=-1)
    scores = {name: METRICS[name](labels, predictions) for name in metrics}
    return {"examples": len(examples), "loss": loss, **scores}


def _cross_entropy(labels, logits):  # [examples], [examples, N]
    logits = logits - logits.max(axis=-1, keepdims=True)
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return float(-np.mean(log_probabilities[np.arange(len(labels)), labels]))
