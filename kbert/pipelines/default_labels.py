"""The labels that a head has before it is given any.

Shapes: N labels.
"""


def default_labels(count: int) -> tuple[list[str], list[str]]:
    """The two lists of N default names: kbert's ``0, 1 …`` and ``LABEL_0, LABEL_1 …`` of transformers."""
    return [str(n) for n in range(count)], [f"LABEL_{n}" for n in range(count)]
