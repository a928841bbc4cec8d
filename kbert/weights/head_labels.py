"""Whether a trained head can go on with other labels, and in which order.

Shapes: N labels.
"""

from collections.abc import Sequence

from kbert.pipelines.settings import default_labels


def head_labels(stored: Sequence[str] | None, wanted: Sequence[str]) -> list[str] | None:
    """The labels with which a head of N labels is used for the labels wanted, in the order of its logits.

    Args:
        stored: its own N labels; None: it has none.
        wanted: N labels.

    Returns:
        The stored labels, if they are those wanted, in whatever order; those wanted, if the head has default labels
        (none, ``0, 1 …``, or ``LABEL_0, LABEL_1 …`` of transformers); None: it is a head of other labels.

    Example::

        head_labels(["pos", "neg"], ["neg", "pos"])  # ["pos", "neg"]
        head_labels(["LABEL_0", "LABEL_1"], ["neg", "pos"])  # ["neg", "pos"]
        head_labels(["cat", "dog"], ["neg", "pos"])  # None
    """
    if stored is not None and set(stored) == set(wanted):
        return list(stored)
    return list(wanted) if stored is None or list(stored) in default_labels(len(wanted)) else None
