"""Labelled long texts: training on windows, evaluation of whole texts.

Shapes: W windows of all texts, N labels.
"""

from collections.abc import Sequence

import numpy as np

from kbert.preprocessing.buckets import longest_first, text_sizes
from kbert.tasks.label_evaluation import compare
from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.labels import check_label_numbers
from kbert.tasks.predict_scores import check_scores
from kbert.tasks.window_store import WindowStore
from kbert.training.progress import PredictionProgress


def document_windows(examples: LabelledText, preprocessor, num_labels: int | None = None):
    """All windows of the texts, each with its text's label.

    Args:
        examples: what to learn, single texts.
        num_labels: N of the model. If given, labels outside [0, N) are an error.

    Returns:
        (`WindowStore`, {"logits": int32 [W], of several labels a text [W, N]} or, for regression, {"score": float32
        [W]}), for `kbert.tasks.window_dataset.window_dataset`.
    """
    if num_labels is not None:
        check_label_numbers(examples.labels, num_labels)
    store = WindowStore.from_examples(examples, preprocessor)
    return store, {"score" if examples.regression else "logits": examples.labels[store.rows]}


def evaluate_documents(
    pipeline, examples: LabelledText, metrics: Sequence[str], *, batch_size: int = 32
) -> tuple[dict, np.ndarray]:
    """`evaluate` for whole texts, by the answers that the pipeline pools over their windows."""
    order, place = longest_first(text_sizes([examples.texts]))
    progress = PredictionProgress(len(order), batch_size)
    texts = [examples.texts[i] for i in order]
    answers = pipeline.predict(texts, batch_size=batch_size, verbose=0, callbacks=[progress])
    scores = np.asarray(answers["score" if examples.regression else "probabilities"], "float64")[place]
    check_scores(scores)
    return compare(examples, scores, metrics, pipeline.answers.thresholds), scores
