"""A corpus and labelled sentences from the prose of the installation: which library is a sentence about?"""

import csv
import logging
import pathlib
import random
import re
from collections import Counter

from kbert.quickstart.installed_prose import installed_documents

_LOGGER = logging.getLogger("kbert")
LIBRARIES = ("python", "numpy", "keras", "tensorflow", "keras_hub", "tensorboard")
SENTENCES_OF_A_LIBRARY = 12_000  # TensorFlow has as many as all others together
TRAIN_OF_A_LIBRARY = 60  # labelled sentences: few, so that the effect of pre-training shows
TEST_OF_A_LIBRARY = 150
_NAMES = re.compile(r"\b(c?python\d?|numpy|np|keras([_ ]?(hub|nlp|cv))?|tensorflow|tf\d?|tensorboard|tb)\b", re.I)


def write_library_sentences(output) -> float:
    """Writes corpus.txt (one sentence per line, a blank line between modules), train.csv and test.csv.

    The split is by module, not by sentence: every third module is for testing and is in no other file. The names of the
    libraries are removed from labelled sentences. A library that is not installed is skipped.

    Returns:
        float, the accuracy of always answering the most frequent library of test.csv.
    """
    output = pathlib.Path(output)
    corpus, train, test = [], {}, {}
    shuffled = random.Random(0)
    for number, (library, _, sentences) in enumerate(installed_documents(LIBRARIES, SENTENCES_OF_A_LIBRARY)):
        (test if number % 3 == 0 else train).setdefault(library, []).extend(sentences)
        if number % 3:
            corpus.append(sentences)
    shuffled.shuffle(corpus)
    with open(output / "corpus.txt", "w", encoding="utf-8") as file:
        file.write("\n\n".join("\n".join(sentences) for sentences in corpus) + "\n")
    _write_labelled(output / "train.csv", train, TRAIN_OF_A_LIBRARY, shuffled)
    labels = _write_labelled(output / "test.csv", test, TEST_OF_A_LIBRARY, shuffled)
    _LOGGER.info(
        "%s sentences of %s modules for pre-training; %d labelled sentences a library for fine-tuning, %s in all for "
        "testing",
        f"{sum(map(len, corpus)):,}",
        f"{len(corpus):,}",
        TRAIN_OF_A_LIBRARY,
        f"{len(labels):,}",
    )
    return max(Counter(labels).values()) / len(labels)


def _write_labelled(path, sentences_of, number, shuffled):
    rows = []
    for library in LIBRARIES:
        anonymous = {" ".join(_NAMES.sub(" ", s).split()) for s in sentences_of.get(library, ())}
        distinct = sorted(s for s in anonymous if len(s.split()) >= 6)
        rows += [(text, library) for text in shuffled.sample(distinct, min(number, len(distinct)))]
    shuffled.shuffle(rows)
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "library"), *rows])
    return [library for _, library in rows]
