"""kbert's own models in saved_models/: small, loaded without network, asked, exported, fine-tuned."""

import re
import socket

import numpy as np
import pytest
from experiment import read_columns
from helpers.paths import ROOT
from helpers.slow_but import slow_but
from helpers.tiny_directory import sentences

import kbert
from kbert.files import read_json
from kbert.serving.exported_pipeline import ExportedPipeline

HOME, NAMES, MOST = ROOT / "saved_models", ("kbert-tiny", "kbert-mini"), 40e6  # bytes of both together
MONTHS = {"january", "february", "march", "april", "may", "june", "july", "august"}
MONTHS |= {"september", "october", "november", "december"}


@pytest.fixture(params=NAMES)
def model(request):
    """The folder of one of the models."""
    return HOME / request.param


# The answers of kbert-mini: test_the_first_page of test_pages.py.
some_models = pytest.mark.parametrize("model", slow_but(("kbert-tiny",), NAMES), indirect=True)


@pytest.fixture
def offline(monkeypatch):
    """Without network: whoever opens a connection fails."""

    def refuse(*_):
        raise OSError("this test has no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_they_are_small():
    files = [file for name in NAMES for file in (HOME / name).rglob("*") if file.is_file()]
    assert 0 < sum(file.stat().st_size for file in files) < MOST


TEXTS = ["Paris is the [MASK] of France.", "The battle took place in [MASK] 1815."]


def answers_of(model):
    """The pipeline of a model, and its answers for TEXTS."""
    pipeline = kbert.build_pipeline(kbert.load_pretrained(model))
    return pipeline, pipeline.predict(TEXTS, verbose=0)


def served(exported):
    return ExportedPipeline(exported).predict_on_batch({"text": TEXTS})["probabilities"]


@some_models
@pytest.mark.usefixtures("offline", "eagerly")
def test_it_is_loaded_and_answers_as_its_export(model):
    _, answers = answers_of(model)
    assert answers["count"].tolist() == [1, 1]
    assert len(MONTHS & set(answers["tokens"][1, 0].tolist())) >= 2  # of the five most probable tokens
    card = (model / "README.md").read_text(encoding="utf-8")
    assert all(f"| {text} | {', '.join(one[0])} |" in card for text, one in zip(TEXTS, answers["tokens"], strict=True))
    [shipped] = [path for path in model.iterdir() if path.name.isdecimal()]
    is_half = read_json(shipped / "card.json")["precision"] == "bfloat16"
    tolerance = 0.02 if is_half else 1e-3  # float16 beside bfloat16, or float32
    np.testing.assert_allclose(served(shipped), answers["probabilities"], atol=tolerance)


@some_models
@pytest.mark.usefixtures("offline", "eagerly")
def test_it_gives_embeddings(model):
    encoder = kbert.build_pipeline(kbert.load_pretrained(model, task="encoder"))
    [one, near, far] = encoder.predict(
        ["The king and his army.", "The king led the army.", "She released a second album."], verbose=0
    )["embedding"]
    assert one @ near > one @ far


@pytest.mark.usefixtures("offline", "eagerly")
def test_one_of_them_is_fine_tuned():
    options = {"steps": 1, "batch_size": 4, "sequence_length": 16, "learning_rate": 1e-3, "evaluate_every": None}
    run = kbert.finetune(HOME / "kbert-tiny", kbert.tasks.Classification(), sentences(8), **options)
    assert sorted(run.pipeline.answers.labels) == ["bad", "good"]


def test_its_files_name_no_place_of_the_machine_that_made_it(model):
    assert read_json(model / "model" / "config.json")["kbert"]["storage_dtype"] == "float16"
    text = "".join((model / name).read_text("utf-8") for name in ("README.md", "model/kbert.json", "1/card.json"))
    assert not re.search(r"(/work|/home|/tmp|/root)/", text)


def test_the_weights_before_the_conversion_have_their_hash():
    """Of the HDF5 files from which the models were exported; kbert-mini's export quotes it."""
    names = [*NAMES, "kbert-mini-sentiment"]
    hashes = {name: read_json(HOME / name / "model/kbert.json")["made_by"]["weights_sha256"] for name in names}
    assert hashes == {
        "kbert-tiny": "75ce8f8d5c77ce4124fb24657056ea60a95ee0d310f381d2082f33cfa785dfd2",
        "kbert-mini": read_json(HOME / "kbert-mini/1/card.json")["made_by"]["weights_sha256"],
        "kbert-mini-sentiment": "d3d1a8291374bc50931181bb585f2f3dab7bc0ffa5d85053cb84e20c1d8c1614",
    }


MARGIN = 20.0  # points of F1: results/finetuning-kbert-mini.json has 72.3 against 35.9


@pytest.mark.slow  # minutes
def test_mini_beats_random_weights_on_named_entities(shared_data):
    """With the settings of results/, which must have the column."""
    result = read_json(ROOT / "results" / "finetuning-kbert-mini.json")
    rows = {row["name"]: row["scores"]["NER"] for row in result["rows"]}
    examples = result["settings"]["examples"]["NER"]
    [ner] = read_columns(shared_data, ["NER"], {"NER": examples["train"]})
    assert len(ner.dev) == examples["dev"]
    scores = {}
    for row in ("kbert-mini", "random weights"):
        options = {"sequence_length": 128} | result["settings"]["finetuning"] | rows[row]["options"]
        options |= {"random_weights": row == "random weights", "keep": "last", "evaluate_every": None}
        run = kbert.finetune(HOME / "kbert-mini", ner.task, ner.train, ner.dev, **options)
        scores[row] = 100 * run.metrics["dev"]["f1"]
    assert rows["kbert-mini"]["mean"] - rows["random weights"]["mean"] > MARGIN
    assert scores["kbert-mini"] - scores["random weights"] > MARGIN, scores


SENTIMENT = HOME / "kbert-mini-sentiment"


@pytest.mark.slow  # asked and exported: test_the_first_page of test_pages.py; a shipped export: above
@pytest.mark.usefixtures("offline", "eagerly")
def test_the_sentiment_model_answers_as_its_card_and_its_export():
    card = (SENTIMENT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| (positive|negative) \| ([\d.]+)% \|$", card, re.M)
    texts, labels, percents = (list(column) for column in zip(*rows, strict=True))
    answers = kbert.build_pipeline(SENTIMENT).predict(texts, verbose=0)
    assert answers["label"].tolist() == labels and len(set(labels)) == 2
    np.testing.assert_allclose(100 * answers["probabilities"].max(-1), [float(x) for x in percents], atol=0.06)
    exported = ExportedPipeline(SENTIMENT / "1").predict_on_batch({"text": texts})
    np.testing.assert_allclose(exported["probabilities"], answers["probabilities"], atol=0.02)


@pytest.mark.slow  # what it answers: test_the_sentiment_model_answers_as_its_card_and_its_export
def test_the_sentiment_model_is_as_good_as_its_card_says(shared_data):
    lines = (shared_data / "glue/SST-2/dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts, numbers = zip(*(line.split("\t") for line in lines), strict=True)
    labels = [("negative", "positive")[int(number)] for number in numbers]
    task = kbert.tasks.Classification()
    scores = kbert.evaluate(SENTIMENT, task, {"text": [text.strip() for text in texts], "label": labels})
    card = (SENTIMENT / "README.md").read_text(encoding="utf-8")
    assert f"**{scores['accuracy']:.1%}**" in card and scores["examples"] == 872
