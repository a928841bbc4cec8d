"""Labelled sentences from the prose of the installation: are the words in their order, or shuffled?"""

import csv
import pathlib
import random
import re

from kbert.quickstart.installed_prose import installed_documents
from kbert.quickstart.library_sentences import LIBRARIES, SENTENCES_OF_A_LIBRARY

COLUMNS = ("text", "words")
ORDERED, SHUFFLED = "in order", "shuffled"
TRAIN, TEST = 400, 900  # sentences: few to learn from, so that the effect of pre-training shows
_WORDS = (8, 24)  # of a sentence, at least and at most
_WORD = re.compile(r"[\w'-]+")


def write_shuffled_sentences(output) -> None:
    """Writes train_order.csv and test_order.csv: sentences without punctuation, half of them with shuffled words.

    The split is by module, not by sentence: every third module is for testing. The same installation gives the same
    files.
    """
    parts, shuffled = {"train": set(), "test": set()}, random.Random(0)
    for number, (_, _, sentences) in enumerate(installed_documents(LIBRARIES, SENTENCES_OF_A_LIBRARY)):
        found = (tuple(_WORD.findall(sentence)) for sentence in sentences)
        parts["train" if number % 3 else "test"].update(words for words in found if _fits(words))
    parts["test"] -= parts["train"]  # sentences that several modules share
    for (part, sentences), number in zip(parts.items(), (TRAIN, TEST), strict=True):
        chosen = shuffled.sample(sorted(sentences), min(number, len(sentences)))
        rows = [(_shuffle(words, shuffled), SHUFFLED) if n % 2 else (words, ORDERED) for n, words in enumerate(chosen)]
        with open(pathlib.Path(output) / f"{part}_order.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *((" ".join(words), label) for words, label in rows)])


def _fits(words):
    return _WORDS[0] <= len(words) <= _WORDS[1] and len(set(words)) > 1


def _shuffle(words, shuffled):
    """The same words in another order."""
    while (changed := tuple(shuffled.sample(words, len(words)))) == words:
        pass
    return changed
