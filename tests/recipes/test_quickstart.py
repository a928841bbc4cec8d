"""The quickstart: its corpus and labeled sentences, and (slow) all of it."""

import csv
from collections import Counter

import pytest
import quickstart
from helpers.run_recipe import read_json, run_recipe, run_recipe_alone


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """What the quickstart writes before it trains, from two libraries only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quickstart, "LIBRARIES", ("numpy", "no_such_library", "keras"))
        patch.setattr(quickstart, "SENTENCES", 900)
        patch.setattr(quickstart, "TEST", 40)
        paths = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
        for path in paths:
            quickstart.write_prose(path)
    return paths


def _rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_same_installation_gives_the_same_files(data):
    first, second = data
    for name in ("corpus.txt", "train.csv", "test.csv"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_labeled_sentences_do_not_name_libraries_and_the_test_is_unseen(data):
    path, _ = data
    corpus = (path / "corpus.txt").read_text(encoding="utf-8")
    train, test = _rows(path / "train.csv"), _rows(path / "test.csv")
    assert Counter(row["library"] for row in train) == {"numpy": 60, "keras": 60}
    # At most 40 of each; which modules are for testing depends on the versions of the libraries and of Python.
    assert all(20 <= count <= 40 for count in Counter(row["library"] for row in test).values())
    for row in train + test:
        assert not {"numpy", "np", "keras", "tf", "tensorflow"} & set(row["text"].lower().replace(".", " ").split())
    assert not {row["text"] for row in train} & {row["text"] for row in test}
    # Names are cut out of some sentences, so only those without any are to be found in the corpus as they stand.
    assert sum(row["text"] in corpus for row in train) > 60
    assert sum(row["text"] in corpus for row in test) == 0


def test_the_corpus_is_prose_of_many_documents(data):
    path, _ = data
    documents = (path / "corpus.txt").read_text(encoding="utf-8").strip().split("\n\n")
    sentences = [line for document in documents for line in document.splitlines()]
    assert len(documents) > 20 and len(sentences) > 500
    assert all(line[0].isupper() and line[-1] in ".!?" for line in sentences)
    assert not any(">>>" in line for line in sentences)


def test_its_output_is_a_new_directory(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(SystemExit, match=f"{tmp_path} already exists. Delete it, or pass another --output"):
        run_recipe("quickstart", "--output", tmp_path)
    with pytest.raises(SystemExit):
        run_recipe("quickstart", "--output", tmp_path / "new", "--steps", 0)
    assert (tmp_path / "letter.txt").read_text() == "dear" and not (tmp_path / "new").exists()


def test_the_better_model_is_shown_last():
    accuracy = {"pre-trained": [0.4, 0.5], "random weights": [0.2, 0.3]}
    lines = quickstart.accuracy_table({"majority_accuracy": 0.2, "accuracy": accuracy}).splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["majority", "class"],
        ["random", "weights"],
        ["pre-trained", "45.0%"],
    ]


@pytest.mark.slow
def test_the_whole_of_it(tmp_path):
    printed = run_recipe_alone("quickstart", "--output", tmp_path / "run")
    metrics = read_json(tmp_path / "run" / "metrics.json")
    pretraining, accuracy = metrics["pretraining"], metrics["accuracy"]
    assert pretraining["mlm_cross_entropy"] < pretraining["unigram"]["cross_entropy"] - 0.4
    assert pretraining["nsp_accuracy"] > 0.65
    assert min(accuracy["pre-trained"]) > max(accuracy["random weights"]) > metrics["majority_accuracy"]
    assert "two sons and a [MASK].  " in printed
    assert (tmp_path / "run/inspection/report.html").stat().st_size > 20_000 and "inspection/report.html" in printed
    assert (tmp_path / "run/finetuned/pre-trained-0/logs/inspection/projector_config.pbtxt").is_file()
    assert "Returns the element-wise sine of the array." in printed.split("answers:")[1]
