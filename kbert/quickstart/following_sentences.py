"""Labelled pairs of sentences from the prose of the installation: does the second one follow the first?"""

import csv
import pathlib
import random

from kbert.quickstart.installed_prose import installed_documents
from kbert.quickstart.library_sentences import LIBRARIES, SENTENCES_OF_A_LIBRARY

COLUMNS = ("first", "second", "follows")
TRAIN, TEST = 600, 900  # pairs: few to learn from, so that the effect of pre-training shows
_WORDS = 6  # of a sentence at least


def write_following_sentences(output) -> None:
    """Writes train_pairs.csv and test_pairs.csv: half of the second sentences follow, the others are of other modules.

    The split is by module, not by sentence: every third module is for testing. The same installation gives the same
    files.

    Args:
        output: path of a directory.
    """
    parts, shuffled = {"train": [], "test": []}, random.Random(0)
    for number, (_, _, sentences) in enumerate(installed_documents(LIBRARIES, SENTENCES_OF_A_LIBRARY)):
        parts["train" if number % 3 else "test"].append(sentences)
    for (part, modules), number in zip(parts.items(), (TRAIN, TEST), strict=True):
        rows = _pairs(modules, number, shuffled)
        with open(pathlib.Path(output) / f"{part}_pairs.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *rows])


def _pairs(modules, number, shuffled):
    """As many pairs of each kind, in a random order; no sentence is the first of two pairs."""
    firsts = {
        sentences[place]: (module, place)
        for module, sentences in enumerate(modules)
        for place in range(len(sentences) - 1)
        if min(len(sentences[place].split()), len(sentences[place + 1].split())) >= _WORDS
    }
    places = list(firsts.values())
    rows = []
    for count, (module, place) in enumerate(shuffled.sample(places, min(number, len(places)))):
        first, second = modules[module][place], modules[module][place + 1]
        if count % 2:
            others = [one for one in places if one[0] != module]
            other, elsewhere = shuffled.choice(others)
            second = modules[other][elsewhere + 1]
        rows.append((first, second, "no" if count % 2 else "yes"))
    shuffled.shuffle(rows)
    return rows
