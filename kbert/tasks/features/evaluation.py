"""A feature-based tagger's tags of given sentences, and their scores.

Shapes: B batch, T words of the longest sentence, N labels, M words of all sentences.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kbert.tasks.features.dataset import FeatureSentences
from kbert.tasks.tagging.entity_views import entity_views
from kbert.tasks.tagging.metrics import entity_scores
from kbert.tasks.tagging.prediction_files import write_predictions
from kbert.tasks.task import Evaluation


def evaluate_features(model, sentences: FeatureSentences, tags: Sequence[str], *, batch_size: int = 32) -> Evaluation:
    """Tags every word and scores the tags.

    Args:
        model: `kbert.models.feature_tagger.feature_tagger`.
        sentences: with their gold tags.
        tags: the model's N labels.
        batch_size: sentences of a forward pass; scores do not depend on it.

    Returns:
        `Evaluation`: scores are ``loss``, the mean over the words, and those of `entity_scores`; predictions are the
        tags of each sentence.

    Example::

        evaluate_features(model, dev, tags).scores["f1"]
    """
    predicted, losses = [[] for _ in range(len(sentences))], []
    order = np.argsort(-sentences.lengths, kind="stable")
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = sentences.batch(rows)
        inputs = {name: tf.constant(batch[name]) for name in ("features", "mask")}
        logits = np.asarray(model.predict_on_batch(inputs)["logits"])  # [B, T, N]
        for row, of_sentence in zip(rows, logits.argmax(axis=-1), strict=True):
            predicted[row] = [tags[n] for n in of_sentence[: sentences.lengths[row]]]
        losses.append(_losses(logits, batch["labels"]))
    scores = {"loss": float(np.concatenate(losses).mean()), **entity_scores(sentences.tagged.tags, predicted)}
    return Evaluation(
        scores,
        predicted,
        write=lambda directory: write_predictions(directory / "predictions.txt", sentences.tagged, predicted),
        show=lambda: entity_views(sentences.tagged, predicted, scores),
    )


def _losses(logits, labels):
    """The cross entropy of each word that has a label, float64 [M]."""
    known = labels >= 0
    logits, labels = logits[known].astype("float64"), labels[known]
    highest = logits.max(axis=-1, keepdims=True)
    total = np.log(np.exp(logits - highest).sum(axis=-1)) + highest[:, 0]
    return total - logits[np.arange(len(labels)), labels]
