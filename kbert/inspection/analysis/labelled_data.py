"""Labelled words and texts in memory, as `kbert.inspect` takes them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbert.checks import is_missing

_LAST_POSITION = 15  # later words count as this one
_TAKES = (
    "a mapping of columns, `words` (lists of words) or `text` (strings), with labels beside them, or the examples of a "
    "tagging or text task"
)


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledData:
    """Sentences of words, texts or pairs, with labels by property: one for each word, or for a text."""

    rows: Sequence
    labels: Mapping[str, Sequence]
    has_words: bool = False
    tags: Sequence[Sequence[str]] | None = None
    heads: Sequence[Sequence[int]] | None = None

    def __len__(self):
        return len(self.rows)

    def up_to(self, count: int) -> "LabelledData":
        """The first rows, up to a number of words or texts."""
        ends = np.cumsum([len(row) if self.has_words else 1 for row in self.rows])
        return self.take(range(int(np.searchsorted(ends, count)) + 1) if ends[-1] > count else range(len(ends)))

    def take(self, numbers: Sequence[int]) -> "LabelledData":
        def taken(column):
            return None if column is None else [column[n] for n in numbers]

        labels = {name: taken(column) for name, column in self.labels.items()}
        return LabelledData(taken(self.rows), labels, self.has_words, taken(self.tags), taken(self.heads))

    def types(self) -> list:
        """All words, one after another, or the texts: the types of the control tasks."""
        return [word for words in self.rows for word in words] if self.has_words else list(self.rows)

    def properties(self) -> dict[str, list[str]]:
        """Name → labels of all words in a row, or of the texts; a word's position is one more property."""
        if not self.has_words:
            return {name: list(column) for name, column in self.labels.items()}
        flat = {name: [label for labels in column for label in labels] for name, column in self.labels.items()}
        position = [f"{min(n, _LAST_POSITION):02}" for words in self.rows for n in range(len(words))]
        return flat | {"position": position}


def labelled_data(data: Any, argument: str) -> LabelledData:
    """Labelled words or texts, from any of the forms that `kbert.inspect` takes.

    A mapping with ``words`` (lists of words) may have ``tags`` (entities in IOB2) and ``heads`` (number of each word's
    syntactic head from 0, -1 for the root), one with ``text`` may have ``text_pair``; every other column holds labels.
    Examples of `kbert.tasks.Tagging` and of the text tasks are taken too. Those with several labels a text have a
    property ``label NAME``, "yes" or "no", for each.
    """
    owner = f"inspect: `{argument}`"
    if isinstance(data, Mapping):
        columns = dict(data)
    elif hasattr(data, "words") and hasattr(data, "tags"):  # kbert.tasks comes later in the order of imports
        columns = {"words": data.words, "tag" if getattr(data, "plain", False) else "tags": data.tags}
    elif hasattr(data, "texts") and hasattr(data, "labels"):
        names = getattr(data, "label_names", None)  # a task of a user may have neither
        matrix = np.asarray(data.labels)
        if matrix.ndim == 2:  # several labels a text: whether it has one is a property
            of_labels = zip(names or range(matrix.shape[1]), matrix.T, strict=True)
            labels = {f"label {name}": ["yes" if on else "no" for on in column] for name, column in of_labels}
        else:
            labels = {"label": [names[n] if names else str(n) for n in data.labels]}
        columns = {"text": data.texts, **labels}
        if (pairs := getattr(data, "text_pairs", None)) is not None:
            columns["text_pair"] = pairs
    else:
        raise TypeError(f"{owner} must be {_TAKES}. Received: {type(data).__name__}")
    if not {"words", "text"} & set(columns):
        raise ValueError(f"{owner} must be {_TAKES}. Received: the columns {sorted(columns)}")
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1 or 0 in sizes.values():
        raise ValueError(f"{owner}: expected columns of one length, at least one row. Received: {sizes}")
    return _words(columns, owner) if "words" in columns else _texts(columns, owner)


def _is_list(value):
    return not isinstance(value, str) and hasattr(value, "__len__")


def _words(columns, owner):
    words = columns.pop("words")
    for row, sentence in enumerate(words):
        if not _is_list(sentence) or not all(isinstance(word, str) for word in sentence):
            raise ValueError(f"{owner}, sentence {row}: expected a list of words. Received: {sentence!r}")
    for name, column in columns.items():
        for row, (sentence, labels) in enumerate(zip(words, column, strict=True)):
            are_labels = _is_list(labels) and not any(map(is_missing, labels))
            if not are_labels or len(labels) != len(sentence) or not len(sentence):
                raise ValueError(
                    f"{owner}, sentence {row}: expected {len(sentence)} of {name!r}, one for each word, and at least "
                    f"one word. Received: {labels!r}"
                )
    tags = columns.pop("tags", None)
    heads = columns.pop("heads", None)
    for row, sentence in enumerate(() if heads is None else heads):
        if not all(-1 <= head < len(sentence) for head in sentence):
            expected = f"expected `heads` from -1 to {len(sentence) - 1}"
            raise ValueError(f"{owner}, sentence {row}: {expected}. Received: {sentence!r}")
    labels = {name: [list(map(str, sentence)) for sentence in column] for name, column in columns.items()}
    if tags is not None:
        labels["entity type"] = [[tag.partition("-")[2] or tag for tag in sentence] for sentence in tags]
    return LabelledData(words, labels, True, tags, heads)


def _texts(columns, owner):
    texts = columns.pop("text")
    pairs = columns.pop("text_pair", None)
    if not columns:
        raise ValueError(f"{owner}: expected a column of labels beside the texts. Received: none")
    for name, column in {"text": texts, "text_pair": () if pairs is None else pairs}.items():
        for row, text in enumerate(column):
            if not isinstance(text, str):
                raise ValueError(f"{owner}, row {row}: expected a text in {name!r}. Received: {text!r}")
    for name, column in columns.items():
        for row, label in enumerate(column):
            if is_missing(label):
                raise ValueError(f"{owner}, row {row}: expected a label in {name!r}. Received: {label!r}")
    texts = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
    return LabelledData(texts, {name: list(map(str, column)) for name, column in columns.items()})
