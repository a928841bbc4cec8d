"""kbert's own models in saved_models/: small, loaded without network, asked, exported, fine-tuned."""

import json
import re
import socket

import numpy as np
import pytest
from helpers.paths import ROOT

import kbert
from kbert.experiments.named_tasks import named_tasks
from kbert.files import read_json
from kbert.serving.exported_pipeline import ExportedPipeline

HOME, NAMES, MOST = ROOT / "saved_models", ("kbert-tiny", "kbert-mini"), 40e6  # bytes of both together
MONTHS = {"january", "february", "march", "april", "may", "june", "july", "august"}
MONTHS |= {"september", "october", "november", "december"}


@pytest.fixture(params=NAMES)
def model(request):
    """The folder of one of the models."""
    if not (HOME / request.param).is_dir():
        pytest.skip(f"saved_models/{request.param} has not been trained yet")
    return HOME / request.param


@pytest.fixture
def offline(monkeypatch):
    """Without network: whoever opens a connection fails."""

    def refuse(*_):
        raise OSError("this test has no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_they_are_small():
    files = [file for name in NAMES for file in (HOME / name).rglob("*") if file.is_file()]
    if not files:
        pytest.skip("saved_models/ has none of them yet")
    assert sum(file.stat().st_size for file in files) < MOST


TEXTS = ["Paris is the [MASK] of France.", "The battle took place in [MASK] 1815."]


def answers_of(model):
    """The pipeline of a model, and its answers for TEXTS."""
    pipeline = kbert.build_pipeline(kbert.load_pretrained(model))
    return pipeline, pipeline.predict(TEXTS, verbose=0)


def served(exported):
    return ExportedPipeline(exported).predict_on_batch({"text": TEXTS})["probabilities"]


@pytest.mark.usefixtures("offline")
def test_it_is_loaded_and_answers_as_its_export(model):
    _, answers = answers_of(model)
    assert answers["count"].tolist() == [1, 1]
    assert len(MONTHS & set(answers["tokens"][1, 0].tolist())) >= 2  # of the five most probable tokens
    [shipped] = [path for path in model.iterdir() if path.name.isdecimal()]
    is_half = read_json(shipped / "card.json")["precision"] == "bfloat16"
    tolerance = 0.02 if is_half else 1e-3  # float16 beside bfloat16, or float32
    np.testing.assert_allclose(served(shipped), answers["probabilities"], atol=tolerance)


@pytest.mark.slow  # small models that are exported: tests/serving
@pytest.mark.usefixtures("offline")
def test_it_is_exported_again(model, tmp_path):
    pipeline, answers = answers_of(model)
    exported = kbert.export(pipeline, tmp_path / "exported")
    np.testing.assert_allclose(served(exported), answers["probabilities"], atol=1e-3)


@pytest.mark.usefixtures("offline")
def test_it_gives_embeddings(model):
    encoder = kbert.build_pipeline(kbert.load_pretrained(model, task="encoder"))
    [one, near, far] = encoder.predict(
        ["The king and his army.", "The king led the army.", "She released a second album."], verbose=0
    )["embedding"]
    assert one @ near > one @ far


def test_the_card_says_what_the_files_say(model):
    card, manifest = (model / "README.md").read_text(encoding="utf-8"), read_json(model / "model" / "manifest.json")
    assert f"{manifest['parameters']:,} parameters" in card and manifest["storage_dtype"] == "float16"
    history = [json.loads(line) for line in (model / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    [last] = [line for line in history if "val_mlm_cross_entropy" in line][-1:]
    found = re.search(r"At the end, on held-out text: MLM loss \(nats\) ([\d.]+), MLM accuracy \(%\) ([\d.]+)", card)
    assert float(found[1]) == pytest.approx(last["val_mlm_cross_entropy"], abs=0.006)
    assert float(found[2]) == pytest.approx(100 * last["val_mlm_accuracy"], abs=0.06)
    result = ROOT / "results" / f"finetuning-{model.name}.json"
    assert not result.is_file() or all(line in card for line in read_json(result)["sentences"])
    text = card + (model / "model" / "manifest.json").read_text() + (model / "1" / "card.json").read_text()
    assert not re.search(r"(/work|/home|/tmp|/root)/", text)


@pytest.mark.slow  # minutes
def test_mini_beats_random_weights_on_mrpc(shared_data, tmp_path):
    """By more than both standard deviations together, with the settings of results/."""
    model, results = HOME / "kbert-mini", ROOT / "results" / "finetuning-kbert-mini.json"
    if not results.is_file() or "MRPC" not in read_json(results)["columns"]:
        pytest.skip("saved_models/kbert-mini has not been compared with random weights on MRPC yet")
    [mrpc] = named_tasks(["MRPC"], glue=shared_data / "glue")
    rows, scores = {row["name"]: row["scores"]["MRPC"] for row in read_json(results)["rows"]}, {}
    for row, random_weights in (("kbert-mini", False), ("random weights", True)):
        options = dict(mrpc.options) | rows[row]["options"] | {"random_weights": random_weights, "keep": "last"}
        scores[row] = [
            kbert.finetune(model, mrpc.task, mrpc.train, mrpc.dev, evaluate_every=None, seed=seed, **options).metrics[
                "dev"
            ]["accuracy"]
            for seed in range(3)
        ]
    ours, random = scores["kbert-mini"], scores["random weights"]
    assert np.mean(ours) - np.mean(random) > np.std(ours, ddof=1) + np.std(random, ddof=1)
