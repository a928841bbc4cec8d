"""Whether a trained head can go on with other labels, and in which order.

Shapes: N labels.
"""

from collections.abc import Sequence

from kbert.pipelines.settings import default_labels


def head_labels(stored: Sequence[str] | None, wanted: Sequence[str]) -> list[str] | None:
    """The labels, in the order of its logits, with which a head of N labels serves for N labels wanted.

    If they are the stored labels, in whatever order, the stored ones. If the head has default labels (None, ``0, 1 …``,
    or ``LABEL_0, LABEL_1 …`` of transformers), the ones wanted. Otherwise None: the head is one of other labels.
    """
    if stored is not None and set(stored) == set(wanted):
        return list(stored)
    return list(wanted) if stored is None or list(stored) in default_labels(len(wanted)) else None
