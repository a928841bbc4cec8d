"""What TensorBoard shows of a tagger's entities."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbert.inspection.examples.marked_text import mark_entities
from kbert.inspection.markdown import escape, markdown_table, percent
from kbert.inspection.view import View
from kbert.tasks.tagging.metrics import entity_chunks
from kbert.tasks.tagging.tagged_text import TaggedText

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
