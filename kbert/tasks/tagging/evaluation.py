"""A tagger's tags of given words, and their score.

Shapes: B batch, S sequence, W windows, N labels, n words of all texts.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kbert.answers.entities import prefix_and_type
from kbert.answers.tags import TagAnswers
from kbert.preprocessing.buckets import limit_batch_size, longest_first, padding_for, trim_padding
from kbert.tasks.predict_scores import check_scores, cross_entropies
from kbert.tasks.tagging.dataset import INPUTS, TaggedWindows
from kbert.tasks.tagging.metrics import entity_scores
from kbert.tasks.tagging.tagged_text import TaggedText
from kbert.training.progress import PredictionProgress

_AS_IOB = str.maketrans("SULE", "BBII")


def evaluate_tagger(
    model, preprocessor, tagged: TaggedText, tags: Sequence[str], *, context: str = "document", batch_size: int = 32
) -> tuple[dict, list[list[str]]]:
    """Tags every word of `tagged` and scores the tags.

    Args:
        tagged: words with their tags, IOB2.
        context: "document" or "sentence": the unit that is read together.

    Returns:
        ``({"sentences", "loss", …what `entity_scores` gives}, predicted tags of each sentence)``. Predicted BIOES or
        BILOU tags are converted to B- and I-, and labels that are only a type get I-, so that they can be scored.
    """
    windows = TaggedWindows.from_tagged_text(tagged, preprocessor, tags, context)
    logits = _logits(model, windows, batch_size)
    words = {name: tf.constant(windows.batch[name]) for name in ("words", "word_position", "word_count")}
    predicted = _by_sentence(TagAnswers(list(tags))({"logits": tf.constant(logits)}, words), tagged)
    scores = entity_scores(tagged.tags, predicted)
    return {"sentences": len(tagged), "loss": _loss(logits, windows), **scores}, predicted


def _logits(model, windows, batch_size):
    """float32 [W, S, N]; longest windows first, each batch as long as its longest."""
    order, _ = longest_first(windows.batch["padding_mask"].sum(axis=1))
    logits = np.zeros((*windows.labels.shape, model.num_labels), "float32")
    batch_size = limit_batch_size(batch_size, len(order))
    progress = PredictionProgress(len(order), batch_size)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        full = np.concatenate([rows, np.repeat(rows[-1:], batch_size - len(rows))])  # one size: traced once per length
        batch = {name: tf.constant(windows.batch[name][full]) for name in INPUTS}
        some = np.asarray(model.predict_on_batch(trim_padding(batch, padding_for(model)))["logits"])[: len(rows)]
        logits[rows, : some.shape[1]] = some
        progress.done(start + len(rows))
    check_scores(logits)
    return logits


def _by_sentence(answers, tagged):
    """The tags of all texts, divided into the original sentences again."""
    tags = [_as_iob(tag.decode()) for row in answers["tags"].numpy() for tag in row if tag]
    ends = np.cumsum([len(words) for words in tagged.words])
    return [tags[end - len(words) : end] for end, words in zip(ends, tagged.words, strict=True)]


def _as_iob(tag):
    prefix, type_ = prefix_and_type(tag)
    return tag if prefix == "O" else f"{prefix.translate(_AS_IOB)}-{type_}"


def _loss(logits, windows):
    """Mean cross-entropy of the labelled words, each in the window with the most context."""
    position = windows.batch["word_position"]
    position = position[position >= 0]
    labelled = windows.weights.reshape(-1)[position] > 0
    position = position[labelled]
    logits = logits.reshape(-1, logits.shape[-1])[position]  # [n, N]
    return float(np.mean(cross_entropies(logits, windows.labels.reshape(-1)[position]))) if len(logits) else 0.0
