"""List the names of several words in a cased corpus, for `kbert pretrain --names`, which masks each as a whole.

    python recipes/find_names.py 'wiki/*.gz' --output names.txt
    kbert pretrain records --names names.txt --size tiny --steps 40000 --output runs/names

Names are found by their capitals, so an uncased model needs the cased text from which its records were made.
"""

import itertools
import pathlib
import re
from collections import Counter

from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.corpus import read_documents
from kbert.options import Count

WORD = re.compile(r"[^\W\d_]+(?:['’.-][^\W\d_]+)*\.?|\d+|\S")
LINKS = {"of", "the", "de", "la", "von", "van", "der"}  # may stand inside a name, but not at its ends
TITLES = {"Mr.", "Mrs.", "Miss", "Dr.", "Sir", "Lord", "Lady"}  # part of the name that follows
MAX_WORDS = 6


def find_names(corpus: list[str], output: PathLike, *, min_count: Count = 5, max_names: Count = 20_000) -> list[str]:
    """Writes the names, one per line, most frequent first.

    Args:
        corpus: text files; put patterns in quotes.
        output: the file to write.
        min_count: occurrences that a name needs.
        max_names: names to write at most.
    """
    output = pathlib.Path(output)
    if output.exists():
        raise FileExistsError(f"{output} already exists. Delete it or choose another --output.")
    sentences = itertools.chain.from_iterable(read_documents(corpus))
    counts = Counter(name for sentence in sentences for name in sentence_names(sentence))
    names = sorted((name for name in counts if counts[name] >= min_count), key=lambda name: (-counts[name], name))
    if not names:
        raise ValueError(f"{' '.join(corpus)}: none of {len(counts):,} names occurs {min_count} times.")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("".join(f"{name}\n" for name in names[:max_names]), encoding="utf-8")
    print(f"{output}: {len(names[:max_names]):,} names, such as {', '.join(names[:5])}")
    return names[:max_names]


def sentence_names(sentence: str) -> list[str]:
    """The names in a sentence: at least two capitalized words in a row, possibly with words such as "of" in between.

    The first word of a sentence is always capitalized, so a name that starts there is skipped unless it starts with a
    title.
    """
    words = WORD.findall(sentence)
    names = []
    start = 0
    while start < len(words):
        end = start
        while end < len(words) and (is_capitalized(words[end]) or (end > start and words[end] in LINKS)):
            end += 1
            if words[end - 1][-1] == "." and words[end - 1] not in TITLES and len(words[end - 1]) > 2:
                break  # the end of a sentence, unlike the period of an initial
        stop = end
        while stop > start and words[stop - 1] in LINKS:
            stop -= 1
        capitals = sum(map(is_capitalized, words[start:stop]))
        if 2 <= stop - start <= MAX_WORDS and capitals >= 2 and (start > 0 or words[0] in TITLES):
            names.append(" ".join(words[start:stop]).removesuffix("."))
        start = max(end, start + 1)
    return names


def is_capitalized(word: str) -> bool:
    return word[0].isupper() and word != "I"


COMMAND = Command(verb=find_names, positional=("corpus",), epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
