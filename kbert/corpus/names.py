"""Names of several words, found in cased text by their capitals."""

import os
import pathlib
import re
from collections import Counter
from collections.abc import Iterable

from kbert.checks import check_positive
from kbert.files import atomic_file

_WORD = re.compile(r"[^\W\d_]+(?:['’.-][^\W\d_]+)*\.?|\d+|\S")
_LINKS = {"of", "the", "de", "la", "von", "van", "der"}  # within a name, never at its border
_TITLES = {"Mr.", "Mrs.", "Miss", "Dr.", "Sir", "Lord", "Lady"}  # before a name, and part of it
_LONGEST = 6  # words


def sentence_names(sentence: str) -> list[str]:
    """The names in a sentence: at least two capitalised words in a row, with words such as "of" between them.

    The first word of a sentence has a capital whatever it is. A name that seems to begin there is skipped, unless it
    begins with a title.
    """
    words = _WORD.findall(sentence)
    names, start = [], 0
    while start < len(words):
        end = start
        while end < len(words) and (_is_capital(words[end]) or (end > start and words[end] in _LINKS)):
            end += 1
            if words[end - 1][-1] == "." and words[end - 1] not in _TITLES and len(words[end - 1]) > 2:
                break  # a full stop, which an initial's is not
        stop = end
        while stop > start and words[stop - 1] in _LINKS:
            stop -= 1
        capitals = sum(map(_is_capital, words[start:stop]))
        if 2 <= stop - start <= _LONGEST and capitals >= 2 and (start > 0 or words[0] in _TITLES):
            names.append(" ".join(words[start:stop]).removesuffix("."))
        start = max(end, start + 1)
    return names


def frequent_names(documents: Iterable[Iterable[str]], min_count: int = 5, max_names: int = 20_000) -> list[str]:
    """Finds the names of a corpus by their capitals.

    Args:
        documents: documents of sentences in their own case, as from `kbert.corpus.read_documents`.
        min_count: how often a name must occur.
        max_names: the most names to return.

    Returns:
        The names, most frequent first. Equally frequent names come in alphabetical order.

    Raises:
        ValueError: no name occurs so often, as in text without capitals.

    Example::

        frequent_names(read_documents("wiki/*.gz"), min_count=10)
    """
    min_count, max_names = check_positive("frequent_names", min_count=min_count, max_names=max_names).values()
    counts = Counter(name for document in documents for sentence in document for name in sentence_names(sentence))
    frequent = (name for name, count in counts.items() if count >= min_count)
    names = sorted(frequent, key=lambda name: (-counts[name], name))
    if not names:
        raise ValueError(
            f"frequent_names: expected text with names in capitals that occur at least {min_count} times. "
            f"Received: {len(counts)} different names, the most frequent {max(counts.values(), default=0)} times"
        )
    return names[:max_names]


def write_names(path: str | os.PathLike, names: Iterable[str]) -> None:
    """Writes names, one a line."""
    with atomic_file(path) as file:
        file.writelines(f"{name}\n" for name in names)


def read_names(path: str | os.PathLike) -> list[str]:
    """The names of a file, one a line."""
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: invalid UTF-8 at byte {error.start}. Save the file as UTF-8.") from error
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise ValueError(f"{path}: expected names, one a line. Received: an empty file")
    return names


def _is_capital(word):
    return word[0].isupper() and word != "I"
