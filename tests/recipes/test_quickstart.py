"""The quickstart: its corpus and labelled sentences, its care for what is there, and (slow) all of it."""

import csv
import json
import shutil
from collections import Counter

import pytest
import quickstart
from helpers.paths import ROOT
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json, run_recipe, run_recipe_alone
from helpers.tiny_directory import write_tiny_directory

import kbert


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """What the quickstart writes before it trains, from two libraries only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quickstart, "LIBRARIES", ("numpy", "no_such_library", "keras"))
        patch.setattr(quickstart, "SENTENCES_OF_A_LIBRARY", 900)
        patch.setattr(quickstart, "TEST_OF_A_LIBRARY", 40)
        paths = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
        majorities = [quickstart.write_library_sentences(path) for path in paths]
    return paths, majorities


def _rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_same_installation_gives_the_same_files(data):
    (first, second), majorities = data
    for name in ("corpus.txt", "train.csv", "test.csv"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    labels = [row["library"] for row in _rows(first / "test.csv")]
    assert majorities == [max(labels.count("numpy"), labels.count("keras")) / len(labels)] * 2


def test_labelled_sentences_do_not_name_libraries_and_the_test_is_unseen(data):
    (path, _), _ = data
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
    (path, _), _ = data
    documents = (path / "corpus.txt").read_text(encoding="utf-8").strip().split("\n\n")
    sentences = [line for document in documents for line in document.splitlines()]
    assert len(documents) > 20 and len(sentences) > 500
    assert all(line[0].isupper() and line[-1] in ".!?" for line in sentences)
    assert not any(">>>" in line for line in sentences)


def test_it_says_what_is_there_and_deletes_only_its_own(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(SystemExit, match="(?s)letter.txt.*did not finish.*--overwrite"):
        run_recipe("quickstart", "--output", tmp_path)
    (tmp_path / "corpus.txt").write_text("somebody's own, too")
    with pytest.raises(SystemExit, match=r"more than this recipe makes \(letter.txt\): not deleted"):
        run_recipe("quickstart", "--output", tmp_path, "--overwrite")
    with pytest.raises(SystemExit, match="must be a directory. Received: .*letter.txt"):
        run_recipe("quickstart", "--output", tmp_path / "letter.txt")
    with pytest.raises(SystemExit):
        run_recipe("quickstart", "--output", tmp_path / "new", "--steps", 0)
    (tmp_path / "metrics.json").write_text('{"minutes": 4}')
    with pytest.raises(SystemExit, match='"minutes": 4'):
        run_recipe("quickstart", "--output", tmp_path)
    assert (tmp_path / "letter.txt").read_text() == "dear" and not (tmp_path / "new").exists()
    (tmp_path / "letter.txt").unlink()
    (tmp_path / ".metrics.json.1a2b3c4d.tmp").write_text("{")  # of a run that was killed just then
    quickstart.claim_directory(tmp_path, overwrite=True)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """Sentences of two libraries, half of them shuffled, written twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quickstart, "LIBRARIES", ("numpy", "keras"))
        patch.setattr(quickstart, "SENTENCES_OF_A_LIBRARY", 900)
        patch.setattr(quickstart, "ORDER_TRAIN", 60)
        patch.setattr(quickstart, "ORDER_TEST", 40)
        paths = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
        for path in paths:
            quickstart.write_shuffled_sentences(path)
    return paths


def test_one_sentence_of_two_is_shuffled(data, sentences):
    [(corpus, _), _], (first, second) = data, sentences
    words_of = quickstart._WORD.findall
    corpus = {" ".join(words_of(line)) for line in (corpus / "corpus.txt").read_text(encoding="utf-8").splitlines()}
    sets = [sorted(line.split()) for line in corpus]
    seen = []
    for name, number in (("train_order.csv", 60), ("test_order.csv", 40)):
        assert (first / name).read_bytes() == (second / name).read_bytes()
        rows = _rows(first / name)
        assert [row["words"] for row in rows].count("shuffled") == number / 2 == len(rows) / 2
        for row in rows:
            in_training = name == "train_order.csv"  # the corpus has no test modules
            assert (row["text"] in corpus) == (in_training and row["words"] == "in order")
            assert (sorted(row["text"].split()) in sets) == in_training, "the same words"
        seen += [tuple(sorted(row["text"].split())) for row in rows]
    assert len(set(seen)) == len(seen) == 100


def test_the_shipped_model_is_tried(sentences, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(quickstart, "write_shuffled_sentences", lambda path: shutil.copytree(sentences[0], path))
    monkeypatch.setattr(quickstart, "ORDER", quickstart.ORDER | {"sequence_length": 16, "epochs": 0.5})
    monkeypatch.setattr(quickstart, "SEEDS", (0, 1))
    made, finetune = {}, kbert.finetune

    def once(*arguments, random_weights, **options):
        if random_weights not in made:
            made[random_weights] = finetune(*arguments, random_weights=random_weights, **options)
        return made[random_weights]

    monkeypatch.setattr(kbert, "finetune", once)  # the second seed has the runs of the first
    write_tiny_directory(tmp_path / "toy")
    with run_eagerly():
        result = quickstart.try_shipped_model(tmp_path / "toy", tmp_path / "run")
    assert {name: len(each) for name, each in result["accuracy"].items()} == {"toy": 2, "random weights": 2}
    assert json.loads(json.dumps(result)) == result and len(result["filled"]) == len(quickstart.PROMPTS)
    assert "  They had two sons and a [MASK].  " in capsys.readouterr().out
    shown = quickstart.describe_accuracies("Does it?", 0.5, result["accuracy"])
    assert shown.startswith("Does it? (accuracy on modules never seen)\n  majority class    50.0%")


def test_the_end_names_tensorboard_and_what_is_to_be_seen_there(tmp_path):
    unigram = {"cross_entropy": 6.5, "accuracy": 0.05}
    metrics = {
        "pretraining": {"mlm_cross_entropy": 5.5, "mlm_accuracy": 0.15, "unigram": unigram},
        "majority_accuracy": 0.2,
        "accuracy": {"pre-trained": [0.4, 0.5], "random weights": [0.2, 0.3]},
        "minutes": 4.0,
    }
    text = quickstart.describe_results(metrics, tmp_path)
    assert f"tensorboard --logdir {tmp_path}\n  Time Series has training, test and baseline in one chart" in text
    assert str(tmp_path / "inspection" / "report.html") in text


@pytest.mark.slow
def test_the_whole_of_it(tmp_path):
    printed = run_recipe_alone("quickstart", "--output", tmp_path / "run")
    metrics = read_json(tmp_path / "run" / "metrics.json")
    pretraining, accuracy = metrics["pretraining"], metrics["accuracy"]
    assert pretraining["mlm_cross_entropy"] < pretraining["unigram"]["cross_entropy"] - 0.4
    assert pretraining["nsp_accuracy"] > 0.65
    assert min(accuracy["pre-trained"]) > max(accuracy["random weights"]) > metrics["majority_accuracy"]
    if (ROOT / "saved_models" / "kbert-tiny").is_dir():
        shipped = metrics["shipped"]["accuracy"]
        assert min(shipped["kbert-tiny"]) > max(shipped["random weights"]) and "two sons and a [MASK].  " in printed
    assert "A fresh process that does not import kbert answers:" in printed
    assert (tmp_path / "run/inspection/report.html").stat().st_size > 20_000 and "inspection/report.html" in printed
    assert (tmp_path / "run/finetuned/pre-trained-0/logs/inspection/projector_config.pbtxt").is_file()
    assert "Returns the element-wise sine of the array." in printed.split("answers:")[1]
