"""A feature-based tagger's tags of given sentences, and their scores.

Shapes: B batch, T words of the longest sentence, N labels.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kbert.finetuning.features.dataset import FeatureSentences
from kbert.tasks.scores import cross_entropies
from kbert.tasks.tagging.evaluation import entity_views, write_predictions
from kbert.tasks.tagging.tag_scheme import entity_scores
from kbert.tasks.task import Evaluation


def evaluate_features(model, sentences: FeatureSentences, tags: Sequence[str], *, batch_size: int = 32) -> Evaluation:
    """Tags every word and scores the tags.

    Returns:
        `Evaluation`: scores are ``loss``, the mean over the words, and those of `entity_scores`; predictions are the
        tags of each sentence.
    """
    predicted = [[] for _ in range(len(sentences))]
    losses = []
    order = np.argsort(-sentences.lengths, kind="stable")
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = sentences.batch(rows)
        inputs = {name: tf.constant(batch[name]) for name in ("features", "mask")}
        logits = np.asarray(model.predict_on_batch(inputs)["logits"])  # [B, T, N]
        for row, of_sentence in zip(rows, logits.argmax(axis=-1), strict=True):
            predicted[row] = [tags[n] for n in of_sentence[: sentences.lengths[row]]]
        known = batch["labels"] >= 0
        losses.append(cross_entropies(logits[known], batch["labels"][known]))
    scores = {"loss": float(np.concatenate(losses).mean()), **entity_scores(sentences.tagged.tags, predicted)}
    return Evaluation(
        scores,
        predicted,
        write=lambda directory: write_predictions(directory / "predictions.txt", sentences.tagged, predicted),
        show=lambda: entity_views(sentences.tagged, predicted, scores),
    )
