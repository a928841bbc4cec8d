"""Texts with their masks filled, in readable form."""

from collections.abc import Iterator, Sequence
from typing import Any

MASK = "[MASK]"


def fill_masks(pipeline, texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The proposals of a masked language model for every [MASK].

    Yields:
        A dict for each text: ``text``, and ``masks``, a list for each mask of dicts of ``token``, ``probability`` and
        ``text``, in which the token replaces the mask; most probable first.
    """
    answers = pipeline.predict(list(texts), verbose=0)
    for text, row in zip(texts, pipeline.answers.to_dicts(answers), strict=True):
        masks = [
            [{**proposal, "text": filled(text, number, proposal["token"])} for proposal in mask]
            for number, mask in enumerate(row["masks"])
        ]
        yield {"text": text, "masks": masks}


def filled(text: str, mask: int, token: str) -> str:
    """The text with a token instead of its `mask`-th [MASK]; a "##" piece is joined to the word before it."""
    parts = text.split(MASK)
    before, after = MASK.join(parts[: mask + 1]), MASK.join(parts[mask + 1 :])
    return before.rstrip() + token[2:] + after if token.startswith("##") else before + token + after
