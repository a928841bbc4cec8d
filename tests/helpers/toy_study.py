"""What the tables of the paper are made of at toy scale: records, and a folder with GLUE, entities and questions."""

import json

import kbert
from helpers.tiny_directory import BAD, GOOD, NOUNS
from helpers.toy_glue import write_toy_glue
from helpers.toy_tags import write_ner
from kbert.corpus.write_records import write_records

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY += sorted({"the", "a", ".", "kind", "play", *GOOD, *BAD, *NOUNS})


def write_study_home(path):
    """records/ and data/ below `path`, which is returned."""
    sentences = [f"the {(GOOD + BAD)[(n + n // 7) % 8]} {NOUNS[n * n % 5]} ." for n in range(200)]
    documents = [sentences[n : n + 5] for n in range(0, 200, 5)]
    write_records(documents, kbert.BertTokenizer(VOCABULARY), path / "records", held_out=0.2)
    write_toy_glue(path / "data/glue", train=24, dev=8)
    write_ner(path / "data/conll2003")
    write_toy_squad(path / "data/squad")
    return path


def write_toy_squad(path):
    """The files of SQuAD 1.1 in a new directory, with questions on one sentence; returns the path."""
    path.mkdir()
    for name, numbers in (("train", range(8)), ("dev", range(8, 12))):
        paragraphs = []
        for n in numbers:
            word, noun = (GOOD + BAD)[n % 8], NOUNS[n % 5]
            answers = [{"text": word, "answer_start": 4}]
            question = {"id": f"q{n}", "question": f"the {noun}", "answers": answers}
            paragraphs.append({"context": f"the {word} {noun} .", "qas": [question]})
        content = {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
        (path / f"{name}-v1.1.json").write_text(json.dumps(content))
    return path
