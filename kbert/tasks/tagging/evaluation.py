"""A tagger's tags of given words, their scores, and how they are written and shown.

Shapes: B batch, S sequence, W windows, N labels, n words of all texts.
"""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kbert.answers.entities import prefix_and_type
from kbert.answers.tags import TagAnswers
from kbert.files import atomic_file
from kbert.inspection.markdown import escape, mark_entities, markdown_table, percent
from kbert.inspection.view import View
from kbert.tasks.scores import check_scores, cross_entropies, predict_windows
from kbert.tasks.tagging.metrics import entity_chunks, entity_scores
from kbert.tasks.tagging.readers import DOCUMENT_START
from kbert.tasks.tagging.tagged_text import TaggedText
from kbert.tasks.tagging.windows import INPUTS, TaggedWindows


def write_predictions(path, tagged: TaggedText, predicted: Sequence[Sequence[str]]) -> None:
    """Writes word, given tag and predicted tag in columns, as conlleval reads them.

    Columns are separated by a space, sentences by an empty line, documents of several sentences by a -DOCSTART- line.
    Tags are IOB2. White space inside a word or type, which columns cannot hold, becomes "_". The file appears
    atomically.
    """
    path = pathlib.Path(path)
    has_documents = len(tagged.texts("document")) < len(tagged)
    lines = []
    document = None
    if len(predicted) != len(tagged):
        raise ValueError(f"write_predictions: expected tags for {len(tagged)} sentences. Received: {len(predicted)}")
    for row in range(len(tagged)):
        if has_documents and tagged.documents[row] != document:
            document = tagged.documents[row]
            lines += [f"{DOCUMENT_START} O O", ""]
        for word, tag, guess in zip(tagged.words[row], tagged.tags[row], predicted[row], strict=True):
            lines.append(" ".join("_".join(cell.split()) or "_" for cell in (word, tag, guess)))
        lines.append("")
    with atomic_file(path) as file:
        file.write("\n".join(lines) + "\n")


_AS_IOB = str.maketrans("SULE", "BBII")


def evaluate_tagger(
    model, preprocessor, tagged: TaggedText, tags: Sequence[str], *, context: str = "document", batch_size: int = 32
) -> tuple[dict, list[list[str]]]:
    """Tags every word of `tagged` and scores the tags.

    `context`, "document" or "sentence", is the unit that is read together. Returns ``{"sentences", "loss", …what
    `entity_scores` gives}`` and the predicted tags of each sentence. Predicted BIOES or BILOU tags are converted to B-
    and I-, and labels that are only a type get I-, so that they can be scored.
    """
    windows = TaggedWindows.from_tagged_text(tagged, preprocessor, tags, context)
    logits = _logits(model, windows, batch_size)
    words = {name: tf.constant(windows.batch[name]) for name in ("words", "word_position", "word_count")}
    predicted = _by_sentence(TagAnswers(list(tags))({"logits": tf.constant(logits)}, words), tagged)
    scores = entity_scores(tagged.tags, predicted)
    return {"sentences": len(tagged), "loss": _loss(logits, windows), **scores}, predicted


def word_logits(model, windows: TaggedWindows, batch_size: int) -> np.ndarray:
    """A tagger's logits of each word, float32 [n, N], from the window with the most context."""
    return _logits(model, windows, batch_size).reshape(-1, model.num_labels)[windows.word_positions]


def _logits(model, windows, batch_size):
    """float32 [W, S, N]."""

    def read(rows):
        return {name: tf.constant(windows.batch[name][rows]) for name in INPUTS}

    lengths = windows.batch["padding_mask"].sum(axis=1)
    logits = predict_windows(model, lengths, read, windows.labels.shape[1], batch_size)["logits"]
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
    position = windows.word_positions
    position = position[windows.weights.reshape(-1)[position] > 0]
    logits = logits.reshape(-1, logits.shape[-1])[position]  # [n, N]
    return float(np.mean(cross_entropies(logits, windows.labels.reshape(-1)[position]))) if len(logits) else 0.0


MOST_SENTENCES = 10  # of a table


def entity_views(tagged: TaggedText, predicted: Sequence[Sequence[str]], scores: Mapping[str, Any]) -> list[View]:
    """Precision and recall by type, sentences with their entities, and those with the most errors."""
    pairs = [(entity_chunks(gold), entity_chunks(tags)) for gold, tags in zip(tagged.tags, predicted, strict=True)]
    errors = np.array([len(set(gold) ^ set(tags)) for gold, tags in pairs])
    with_entities = np.flatnonzero([bool(gold) for gold, _ in pairs])
    sample = np.unique(np.linspace(0, len(with_entities) - 1, MOST_SENTENCES).astype("int64"))
    worst = np.argsort(-errors, kind="stable")[:MOST_SENTENCES]
    rows = [[escape(name), *_cells(one)] for name, one in scores["types"].items()]
    types = markdown_table(
        ["type", "precision", "recall", "F1", "gold", "predicted"], [*rows, ["**all**", *_cells(scores)]]
    )

    def table(sentences):
        lines = []
        for row in sentences:
            gold, tags = pairs[row]
            shared = set(gold) & set(tags)
            for name, entities in (("gold", gold), ("predicted", tags)):
                where = escape(tagged.source(row)) if name == "gold" else ""
                lines.append([name, mark_entities(tagged.words[row], entities, shared), where])
        return markdown_table(["", "✓ in both, ✗ missed by the prediction (gold) or wrong (predicted)", "from"], lines)

    return [
        View("predictions/by type", f"{len(tagged):,} held-out sentences\n\n{types}"),
        View(
            "predictions/sentences",
            table(with_entities[sample]) if len(with_entities) else "No held-out sentence has an entity.",
            "Sentences with entities, evenly spread over the held-out ones: the same ones at each evaluation.",
        ),
        View(
            "predictions/worst sentences",
            table(worst[errors[worst] > 0]) if errors.any() else "Every entity is found, and no other.",
            "The sentences with the most entities that are missed or wrong.",
        ),
    ]


def _cells(one):
    shares = [percent(one[name]) for name in ("precision", "recall", "f1")]
    return [*shares, f"{one['entities']:,}", f"{one['predicted_entities']:,}"]
