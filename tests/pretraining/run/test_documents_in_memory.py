"""`kbert.pretrain` on documents in memory: the run of the same text in a file, resumed only with the same documents."""

import pytest
import tensorflow as tf
from helpers.at_step import Killed
from helpers.tiny_corpus import make_documents, make_pretrainer, make_tokenizer
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.corpus.documents import DocumentList, read_documents, texts_as_documents
from kbert.files import read_json
from kbert.pretraining.run.source import corpus_source

DOCUMENTS = make_documents(60)
SHORT = {"steps": 2, "batch_size": 4, "sequence_length": 16, "evaluation_batches": 1, "packed": False, "held_out": 0.2}


@pytest.mark.slow  # changed documents: faults/test_changed_inputs.py
@pytest.mark.usefixtures("eagerly", "same_data")
def test_a_run_is_resumed_with_the_same_documents_only(tmp_path, caplog, monkeypatch):
    def pretrain(documents, error=None):
        def train(*arguments, **options):
            if error is not None:
                raise error
            return 2

        monkeypatch.setattr("kbert.training.loop.train", train)
        arguments = {"vocabulary": make_tokenizer(), "output": tmp_path / "run"} | SHORT
        return kbert.pretrain(documents, init=make_pretrainer(16), **arguments)

    with pytest.raises(Killed):
        pretrain(DOCUMENTS, Killed)
    settings = read_json(tmp_path / "run" / "settings.json")
    assert settings["corpus_or_records"]["documents"] == 60 and len(settings["corpus_or_records"]["sha256"]) == 64
    with pytest.raises(FileExistsError, match="corpus"):
        pretrain(DOCUMENTS[:-1])
    assert pretrain(DOCUMENTS).metrics["steps"] == 2
    # The texts are in the language of the vocabulary.
    assert "token frequencies alone: " in caplog.text and "[UNK], of which" not in caplog.text


def test_documents_are_those_of_a_file(tmp_path):
    documents = [[" One line.", "", "Two."], [], ["Three.\n"], ["x"] * 20_001]
    (tmp_path / "corpus.txt").write_text("One line.\nTwo.\n\nThree.\n\n" + "x\n" * 20_001)
    assert list(DocumentList(documents)) == list(read_documents(tmp_path / "corpus.txt", "lines"))
    assert DocumentList(documents).fingerprint() != DocumentList(documents[::-1]).fingerprint()


def test_texts_in_every_form():
    texts = ["Mr. Smith came. He sat.", "Another text."]
    expected = [["Mr. Smith came.", "He sat."], ["Another text."]]
    dataset = tf.data.Dataset.from_tensor_slices({"text": texts})
    for form in ({"text": texts}, [{"text": text} for text in texts], dataset, dataset.batch(2)):
        assert list(corpus_source(form)) == expected
    assert list(corpus_source(expected)) == expected
    assert list(corpus_source(texts)) == list(read_documents(texts)) == expected
    assert [len(one) for one in corpus_source(["a " * 200, "short", "Two lines\nof one."])] == [1, 1, 1]
    assert corpus_source("corpus/*.txt") == "corpus/*.txt" and corpus_source(["*.txt"]) == ["*.txt"]


def test_files_and_mistyped_names_are_no_texts(tmp_path):
    file = tmp_path / "Is this a name?"
    file.write_text("A first sentence.\nAnother one.")
    sources = [[str(file), "A text that is a text."], [f"{tmp_path}/Is this*?"], ["my corpus.txt"], ["corpus/*.txt"]]
    for source in sources:
        assert texts_as_documents(source) is source
    with pytest.raises(ValueError, match="No file matches 'A text that is a text.'"):
        list(read_documents(sources[0]))
    with pytest.raises(ValueError, match="No file matches 'my corpus.txt'. Give"):
        read_documents(sources[2])


TEXTS = [" ".join(document) for document in DOCUMENTS]


def test_what_is_no_corpus_is_named():
    def pretrain(corpus):
        kbert.pretrain(corpus, vocabulary=make_tokenizer(), **SHORT)

    wrong_inputs(
        pretrain,
        (["my corpus.txt", "x"], r"No file matches 'my corpus.txt'.* a list of sentences"),
        (["x" * 250 + "/" + "y" * 250], r"No file matches 'x{250}/y{40,50}….* a list of sentences"),
        ("A long text.\n" * 10_000, r"No file matches 'A long text.{250,300}…. Give"),
        ([[], [" "]], "at least one sentence"),
        ([["\u200b" * n] for n in range(1, 41)], "no document with a token"),
        ({"words": ["a"]}, r"missing: \['text'\]"),
        ({"text": [None, float("nan")]}, "row 0: expected texts in 'text'. Received: 2 empty ones"),
        ({"text": ["a", ["b"]]}, "row 1: 'text' must be a string or a number"),
        ([], "an empty list"),
    )
    wrong_inputs(
        pretrain,
        ([["a"], "b"], r"documents\[1\]: expected a document as a list of sentences.* Received: 'b'"),
        ([["a", 3]], r"documents\[0\]: expected .* Received: 3$"),
        ({"text": "A text."}, "the column 'text' as a list, with a value a row. Received: 'A text.'"),
        (iter([["a"]]), "`corpus_or_records` must be .* Received: list_iterator"),
        error=TypeError,
    )
