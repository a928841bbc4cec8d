"""What the tables of the paper are made of at toy scale: text, records, GLUE, entities, questions, and the flags."""

import json

import kbert
from helpers.run_recipe import as_flags
from helpers.tiny_corpus import write_lines
from helpers.tiny_directory import BAD, GOOD, NOUNS
from helpers.toy_glue import write_toy_glue
from helpers.toy_tags import write_ner
from kbert.corpus.write_records import write_records

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY += sorted({"the", "a", ".", "kind", "play", *GOOD, *BAD, *NOUNS})
QUICK = (
    *as_flags(pretraining_batch_size=64, pretraining_length=16, pretraining_precision="float32"),
    *as_flags(epochs=1, batch_size=8, sequence_length=16, learning_rates=1e-3),
)
TOY = (*as_flags(steps=5, tasks="SST-2", train_examples=8), *QUICK)


def write_study_home(path):
    """corpus.txt, records/, vocab.txt, glue/ and ner/ below `path`, which is returned."""
    sentences = [f"the {(GOOD + BAD)[(n + n // 7) % 8]} {NOUNS[n * n % 5]} ." for n in range(200)]
    documents = [sentences[n : n + 5] for n in range(0, 200, 5)]
    write_lines(path / "corpus.txt", documents)
    write_records(documents, kbert.BertTokenizer(VOCABULARY), path / "records", held_out=0.2)
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    write_toy_glue(path / "glue")
    write_ner(path / "ner")
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


def study_arguments(home, output, table, *more, of_text=False):
    """Those of ablations.py for what `write_study_home` wrote."""
    source = (home / "corpus.txt", *as_flags(vocabulary=home / "vocab.txt")) if of_text else (home / "records",)
    return (*source, *as_flags(table=table, glue=home / "glue", output=output), *TOY, *more)
