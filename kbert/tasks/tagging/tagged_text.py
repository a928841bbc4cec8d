"""Tagged words in memory: the examples of tagging."""

import dataclasses
from collections.abc import Sequence

from kbert.checks import shown
from kbert.tasks.examples import Examples

CONTEXTS = ("document", "sentence")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TaggedText(Examples):
    """Sentences of words with a tag each, in IOB2: the first word of an entity has B-type, its others I-type."""

    words: Sequence[Sequence[str]]  # of each sentence
    tags: Sequence[Sequence[str]]  # as many of each
    documents: Sequence[int]  # the document number of each sentence, ascending
    path: str | None = None
    lines: Sequence[int] = ()  # the line of each sentence's first word
    one_line: bool = False  # whether all words of a sentence are on that line
    tag_names: Sequence[str] | None = None  # of a tagger, with held-out types; None: those of this text

    row_fields = ("words", "tags", "documents")
    _unit = "documents"

    def __post_init__(self):
        sizes = {len(self.words), len(self.tags), len(self.documents)}
        if len(sizes) > 1 or not self.words:
            raise ValueError(
                "TaggedText: expected as many lists of words, lists of tags and document numbers, at least one. "
                f"Received: {len(self.words)}, {len(self.tags)} and {len(self.documents)}"
            )
        for row, (words, tags) in enumerate(zip(self.words, self.tags, strict=True)):
            if len(words) != len(tags):
                raise ValueError(
                    f"{self.where(row)}: expected one tag per word. Received: {len(words)} and {len(tags)}"
                )

    @property
    def columns(self) -> dict[str, list[str]]:
        """The sentences with their words joined by spaces, for pipelines of strings."""
        return {"text": [" ".join(words) for words in self.words]}

    def _rows(self):
        return {"words": list(self.words), "tags": list(self.tags), "document": list(self.documents)}

    def baseline(self) -> str:
        """The tag of words outside of entities, O."""
        return "O"

    def where(self, row: int, word: int = 0) -> str:
        """File and line of a word of a sentence, as error messages name them."""
        if not len(self.lines):
            return f"{self.path or 'the tagged text'}, sentence {row}"
        return f"{self.path}, line {self.lines[row] + (0 if self.one_line else word)}"

    def _groups(self):
        return self.texts("document")

    def texts(self, context: str = "document") -> list[range]:
        """The sentences that a tagger reads together: one by one with the context "sentence", else all of a document.

        "document" is the paper's maximal document context.
        """
        if context not in CONTEXTS:
            raise ValueError(f"`context` must be one of {CONTEXTS}. Received: {context!r}")
        if context == "sentence":
            return [range(n, n + 1) for n in range(len(self))]
        starts = [n for n in range(len(self)) if n == 0 or self.documents[n] != self.documents[n - 1]]
        return [range(a, b) for a, b in zip(starts, [*starts[1:], len(self)], strict=True)]


def learn_tags(tagged: TaggedText) -> list[str]:
    """The tags of a tagger trained on this text: "O", then B- and I- of each type, sorted by type."""
    types = sorted({tag[2:] for tags in tagged.tags for tag in tags if tag != "O"})
    return ["O", *(f"{prefix}-{type_}" for type_ in types for prefix in "BI")]


def check_tags(tagged: TaggedText, tags: Sequence[str]) -> None:
    """Raises a ValueError that names file and line for the first tag that is not among `tags`."""
    known = set(tags)
    for row, sentence in enumerate(tagged.tags):
        for n, tag in enumerate(sentence):
            if tag not in known:
                raise ValueError(f"{tagged.where(row, n)}: expected one of {list(tags)}. Received: {shown(tag)}")
