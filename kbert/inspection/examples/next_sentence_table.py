"""Pairs of sentences with the verdict of next sentence prediction.

Shapes: B batch, S sequence, K parts of a packed row.
"""

import numpy as np

from kbert.inspection.markdown import markdown_table, percent

_NAMES = ("IsNext", "NotNext")
_MOST_TOKENS = 40  # of a segment


def next_sentence_table(inputs, labels, weights, logits, piece) -> str:
    """A Markdown table of the pairs of a batch, as the model sees them: with their masks.

    Args:
        inputs: dict of ``token_ids``, ``segment_ids``, ``padding_mask`` [B, S], of packed rows also ``part_ids``.
        labels: int [B] or [B, K], 0 is IsNext.
        weights: float, as the labels; pairs of weight 0 are not there. None: all are.
        logits: float [B, 2] or [B, K, 2].
        piece: function of a token id that returns Markdown.
    """
    token_ids, segment_ids = inputs["token_ids"], inputs["segment_ids"]
    size = len(token_ids)
    part_ids = inputs.get("part_ids", np.asarray(inputs["padding_mask"], "int32"))  # part 0 is padding
    labels = np.reshape(labels, (size, -1))  # [B, K]
    weights = np.ones(labels.shape) if weights is None else np.reshape(weights, labels.shape)
    odds = np.reshape(logits, (*labels.shape, 2)).astype("float64")
    not_next = 1 / (1 + np.exp(np.clip(odds[..., 0] - odds[..., 1], -700, 700)))
    rows = []
    for row, part in np.argwhere(weights > 0):
        segments = []
        for segment in (0, 1):
            is_here = (part_ids[row] == part + 1) & (segment_ids[row] == segment)
            ids = token_ids[row][is_here].tolist()
            shown = " ".join(map(piece, ids[:_MOST_TOKENS])) or "–"
            segments.append(shown + (" …" if len(ids) > _MOST_TOKENS else ""))
        gold, share = int(labels[row, part]), float(not_next[row, part])
        verdict = int(share > 0.5)
        mark, stars = ("✓", "**") if verdict == gold else ("✗", "*")
        answer = f"{mark} {stars}{_NAMES[verdict]}{stars} ({percent(share if verdict else 1 - share)})"
        rows.append([*segments, _NAMES[gold], answer])
    return markdown_table(["first segment", "second segment", "gold", "predicted"], rows)
