"""Tagged words in memory: what the readers of tagged files give and a tagger learns."""

import dataclasses
from collections.abc import Sequence

import numpy as np

CONTEXTS = ("document", "sentence")


@dataclasses.dataclass(frozen=True, eq=False)
class TaggedText:
    """Sentences of words with a tag each, in IOB2: the first word of an entity has B-type, its others I-type.

    Example::

        tagged = TaggedText([["EU", "rejects"]], [["B-ORG", "O"]], [0], "eng.train", [3])
        tagged.where(0, 1)  # "eng.train, line 4"
    """

    words: Sequence[Sequence[str]]  # of each sentence
    tags: Sequence[Sequence[str]]  # as many of each
    documents: Sequence[int]  # of each sentence the number of its document, ascending
    path: str = "the tagged text"
    lines: Sequence[int] = ()  # of each sentence the line of its first word
    one_line: bool = False  # whether all words of a sentence stand in that line

    def __post_init__(self):
        sizes = {len(self.words), len(self.tags), len(self.documents)}
        if len(sizes) > 1 or not self.words:
            raise ValueError(
                "TaggedText: expected as many lists of words, lists of tags and document numbers, at least one. "
                f"Received: {len(self.words)}, {len(self.tags)} and {len(self.documents)}"
            )
        for row, (words, tags) in enumerate(zip(self.words, self.tags, strict=True)):
            if len(words) != len(tags):
                raise ValueError(f"{self.where(row)}: expected a tag a word. Received: {len(words)} and {len(tags)}")

    def __len__(self):
        return len(self.words)

    def where(self, sentence: int, word: int = 0) -> str:
        """File and line of a word, as error messages name them."""
        if not self.lines:
            return f"{self.path}, sentence {sentence}"
        return f"{self.path}, line {self.lines[sentence] + (0 if self.one_line else word)}"

    def take(self, count: int) -> "TaggedText":
        """The first `count` sentences, with the documents they are in."""
        if not 0 < count <= len(self):
            raise ValueError(f"Expected to take 1 to {len(self)} sentences of {self.path}. Received: {count}")
        return self._rows(range(count))

    def split(self, share: float, seed: int = 0) -> tuple["TaggedText", "TaggedText"]:
        """A share of the documents drawn at random, at least one, and the others; the same for the same seed.

        Raises:
            ValueError: fewer than two documents.
        """
        texts = self.texts("document")
        if len(texts) < 2:
            raise ValueError(f"{self.path}: expected at least two documents, to hold some out. Received: {len(texts)}")
        count = min(max(1, round(share * len(texts))), len(texts) - 1)
        drawn = set(np.random.Generator(np.random.PCG64(seed)).permutation(len(texts))[:count].tolist())
        parts = ([row for n, text in enumerate(texts) if (n in drawn) == held_out for row in text]
                 for held_out in (True, False))  # fmt: skip
        return tuple(self._rows(rows) for rows in parts)

    def _rows(self, rows):
        names = ("words", "tags", "documents", *(("lines",) if self.lines else ()))
        return dataclasses.replace(self, **{name: [getattr(self, name)[row] for row in rows] for name in names})

    def texts(self, context: str = "document") -> list[range]:
        """The sentences that a tagger reads together: of each document all, or one by one.

        Args:
            context: "document" (the paper's maximal document context) or "sentence".

        Raises:
            ValueError: another context.
        """
        if context not in CONTEXTS:
            raise ValueError(f"`context` must be one of {CONTEXTS}. Received: {context!r}")
        if context == "sentence":
            return [range(n, n + 1) for n in range(len(self))]
        starts = [n for n in range(len(self)) if n == 0 or self.documents[n] != self.documents[n - 1]]
        return [range(a, b) for a, b in zip(starts, [*starts[1:], len(self)], strict=True)]


def learn_tags(tagged: TaggedText) -> list[str]:
    """The tags of a tagger that learns this text: "O", then B- and I- of each type, types sorted.

    Raises:
        ValueError: no entity at all.

    Example::

        learn_tags(tagged)  # ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    """
    types = sorted({tag[2:] for tags in tagged.tags for tag in tags if tag != "O"})
    if not types:
        raise ValueError(f"{tagged.path}: expected at least one entity. Received: nothing but O")
    return ["O", *(f"{prefix}-{type_}" for type_ in types for prefix in "BI")]


def check_tags(tagged: TaggedText, tags: Sequence[str]) -> None:
    """Raises ValueError, naming file and line, for the first tag that is not among `tags`."""
    known = set(tags)
    for row, sentence in enumerate(tagged.tags):
        for n, tag in enumerate(sentence):
            if tag not in known:
                raise ValueError(f"{tagged.where(row, n)}: expected one of {list(tags)}. Received: {tag!r}")
