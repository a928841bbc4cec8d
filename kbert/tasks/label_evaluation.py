"""A model's score on labelled examples.

Shapes: N labels or choices, n examples.
"""

from collections.abc import Sequence

import numpy as np

from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.labels import check_label_numbers
from kbert.tasks.metrics import mean_squared_error, metrics_of
from kbert.tasks.predict_scores import predict_scores


def evaluate(
    model,
    preprocessor,
    examples: LabelledText,
    metrics: Sequence[str],
    *,
    batch_size: int = 32,
    static: bool = False,
    thresholds: Sequence[float] | None = None,
) -> tuple[dict, np.ndarray]:
    """Scores the predictions for all examples.

    Args:
        model: `BertClassifier`, `BertRegressor` or `BertMultipleChoice`.
        preprocessor: the pipeline's, from strings to the model's batch.
        examples: `LabelledText`, or `LabelledChoices` for multiple choice.
        metrics: names of `kbert.tasks.metrics.metrics_of` such labels.
        batch_size, static: see `predict_scores`; no metric depends on them.
        thresholds: of `compare`.

    Returns:
        (``{"examples": count, "loss": cross entropy or squared error, <metric>: …}``, the result of `predict_scores`).

    Raises:
        ValueError: a label that is not in [0, N).

    Example::

        evaluate(pipeline.model, pipeline.preprocessor, examples, ["accuracy"])[0]  # {"examples": 872, …}
    """
    if model.num_labels is not None:  # before the work of predicting
        check_label_numbers(examples.labels, model.num_labels)
    scores = predict_scores(model, preprocessor, examples.columns, batch_size=batch_size, static=static)
    return compare(examples, scores, metrics, thresholds), scores


def compare(examples: LabelledText, scores: np.ndarray, metrics: Sequence[str], thresholds=None) -> dict:
    """The scores of `evaluate`, from existing predictions: of one model, or the mean of several.

    Args:
        examples: with n labels.
        scores: probabilities [n, N], or for regression [n].
        metrics: names of `kbert.tasks.metrics.metrics_of` such labels.
        thresholds: where a text may have several labels, floats [N] that the probability of one that is on exceeds;
            None: 0.5.
    """
    labels = examples.labels
    if examples.regression:
        loss, predictions = mean_squared_error(labels, scores), scores
    else:
        check_label_numbers(labels, scores.shape[-1])
        if labels.ndim == 2:
            likelihoods = np.where(labels == 1, scores, 1.0 - scores)
            predictions = (scores > (0.5 if thresholds is None else np.asarray(thresholds))).astype("int32")
        else:
            likelihoods, predictions = scores[np.arange(len(labels)), labels], np.argmax(scores, axis=-1)
        loss = float(-np.mean(np.log(np.maximum(likelihoods, np.finfo("float64").tiny))))
    return {
        "examples": len(examples),
        "loss": loss,
        **{name: metrics_of(labels)[name](labels, predictions) for name in metrics},
    }
