"""A task made of a file and a line: it is trained, scored, saved, loaded, exported and served, and reads files."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import run_kbert
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer
from helpers.tiny_directory import sentences, write_table, write_tiny_directory
from helpers.tiny_finetuning import QUICK
from helpers.toy_task import BertPoliteness, Politeness

import kbert
from kbert.finetuning.predict_file import predict_file
from kbert.inspection.playground.answers import ask
from kbert.inspection.playground.models import named_models
from kbert.pipelines import registry

TEXTS = ["good film", "a very bad film !", "never", "paris is good ."]


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "_TASKS", dict(registry._TASKS))
    registry.register_task("politeness", lambda: Politeness)  # the one line


@pytest.fixture
def pipeline(registered):
    return kbert.build_pipeline(randomise(BertPoliteness(tiny_config(num_layers=1))), tiny_tokenizer(), threshold=0.1)


@pytest.mark.usefixtures("eagerly")
def test_it_trains(pipeline):
    pipeline.compile(kbert.AdamW(0.01))
    history = pipeline.fit(TEXTS, [1.0, 0.0, 0.0, 1.0], epochs=8, verbose=0).history["loss"]
    assert history[-1] < history[0]


@pytest.mark.usefixtures("eagerly", "registered")
def test_it_is_fine_tuned_evaluated_and_predicted(tmp_path, capsys):
    """By `kbert.finetune` and `kbert.evaluate`, and by the recipes that take a model of any task."""
    task = Politeness()
    rows = [(text, float(label == "good")) for text, label in sentences(24)]
    files = [write_table(tmp_path / name, some, ("text", "politeness")) for name, some in _split(rows)]
    train, dev = (task.read(file) for file in files)
    assert dev.columns["text"] == [text for text, _ in rows[16:]] and dev.where(0) == f"{files[1]}, line 2"
    init, options = write_tiny_directory(tmp_path / "init"), QUICK | {"steps": 3}
    run = kbert.finetune(init, task, train, dev, tmp_path / "run", **options)
    degrees, mean = np.array([one for _, one in rows[16:]]), np.mean([one for _, one in rows[:16]])
    assert run.metrics["constant_answer"]["agreement"] == pytest.approx(1 - np.abs(mean - degrees).mean())
    found = run.pipeline.predict(list(dev.texts), verbose=0)["politeness"]
    assert run.metrics["dev"]["agreement"] == pytest.approx(1 - np.abs(found - degrees).mean(), abs=1e-5)
    assert run.pipeline.answers.threshold == run.metrics["threshold"] == pytest.approx(np.median(found), abs=1e-5)
    assert kbert.load_pretrained(run.path).pretrained.settings.task.threshold == run.metrics["threshold"]
    scores = kbert.evaluate([run.path, run.pipeline], task, rows[16:])  # an ensemble of twice the same
    assert scores == pytest.approx(run.metrics["dev"], abs=1e-5) and scores["examples"] == 8
    run_kbert("evaluate", run.path, "--examples", files[1], "--json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == pytest.approx(scores, abs=1e-5)
    run_kbert("predict", "--source", run.path, "--input", files[1], "--output", tmp_path / "answers.jsonl")
    answers = [json.loads(line)["politeness"] for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    np.testing.assert_allclose(answers, found, atol=1e-5)


def _split(rows):
    return ("train.csv", rows[:16]), ("dev.csv", rows[16:])


@pytest.mark.usefixtures("registered")
def test_what_does_not_belong_to_it_is_an_error(pipeline):
    task, rows = Politeness(), [("good", 1.0), ("bad", 0.0)]
    with pytest.raises(ValueError, match="^evaluate: expected a classification model. Received: a politeness"):
        kbert.evaluate(pipeline, kbert.tasks.Classification(), [("good", "x")])
    with pytest.raises(ValueError, match="`class_weight` is for a classifier's labels"):
        kbert.finetune(pipeline, task, rows, class_weight="balanced")
    with pytest.raises(ValueError, match="Expected options of Politeness, .* Received: {'scheme': 'iob'}"):
        type(task).from_options({"scheme": "iob"})
    with pytest.raises(ValueError, match="model 0: expected a fine-tuned model. Received: .encoder."):
        encoder = kbert.build_pipeline(kbert.BertEncoder(tiny_config(num_layers=1)), tiny_tokenizer())
        kbert.evaluate([encoder, encoder], task, rows)


@pytest.mark.usefixtures("eagerly")
def test_it_is_saved_and_loaded(pipeline, tmp_path):
    expected = pipeline.predict(TEXTS, verbose=0)
    assert set(expected["verdict"]) <= {"polite", "rude"}
    kbert.save_pretrained(pipeline, tmp_path / "model")
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert config["kbert"]["task"] == {"name": "politeness", "threshold": 0.1}
    model = kbert.load_pretrained(tmp_path / "model")
    again = kbert.build_pipeline(model)
    assert again.settings() == pipeline.settings() and model.pretrained.report.newly_initialised == []
    found = again.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(found["politeness"], expected["politeness"], atol=1e-6)
    assert kbert.build_pipeline(kbert.load_pretrained(tmp_path / "model", threshold=-9.0)).answers.threshold == -9.0
    encoder = kbert.BertEncoder(tiny_config(num_layers=1))
    kbert.save_pretrained(encoder, tmp_path / "encoder", tokenizer=tiny_tokenizer())
    fresh = kbert.load_pretrained(tmp_path / "encoder", task="politeness")
    assert {row.variable.split("/")[0] for row in fresh.pretrained.report.newly_initialised} == {"politeness_head"}
    assert kbert.build_pipeline(fresh).answers.threshold == 0.5
    pipeline.save(tmp_path / "it.keras")
    loaded = keras.models.load_model(tmp_path / "it.keras").predict(TEXTS, verbose=0)
    np.testing.assert_allclose(loaded["politeness"], expected["politeness"], atol=1e-6)


def test_it_is_exported_and_served(pipeline, tmp_path):
    with run_eagerly():
        expected = pipeline.predict(TEXTS, verbose=0)
    served = tf.saved_model.load(str(kbert.export(pipeline, tmp_path / "served")))
    for name in ("serving_default", "politeness"):
        answers = served.signatures[name](text=tf.constant(TEXTS))
        np.testing.assert_allclose(answers["politeness"], expected["politeness"], atol=1e-5)
        assert [verdict.decode() for verdict in answers["verdict"].numpy()] == expected["verdict"].tolist()
    card = json.loads((tmp_path / "served/1/card.json").read_text())
    assert card["task"] == "politeness" and set(card["signatures"]) == {"serving_default", "politeness"}


@pytest.mark.usefixtures("eagerly")
def test_it_is_inspected_plainly(pipeline, tmp_path, caplog):
    expected = pipeline.predict(TEXTS[:1], verbose=0)
    assert kbert.inspect(pipeline, TEXTS[:1]).attributions == [None]
    assert "no attributions: the politeness model has no head of classifier_head, " in caplog.text
    kbert.save_pretrained(pipeline, tmp_path / "polite")
    (model,) = named_models([tmp_path / "polite"]).values()
    answer = ask(model.pipeline, [TEXTS[0]])
    assert answer == {
        "politeness": pytest.approx(expected["politeness"][0], abs=1e-5),
        "verdict": expected["verdict"][0],
    }


@pytest.mark.usefixtures("eagerly")
def test_it_predicts_files(pipeline, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    assert predict_file(pipeline, tmp_path / "texts.txt", tmp_path / "answers.jsonl", batch_size=3) == 4
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [row["verdict"] for row in rows] == pipeline.predict(TEXTS, verbose=0)["verdict"].tolist()


def test_its_options_are_its_own(pipeline, registered):
    with pytest.raises(ValueError, match=r"a politeness model takes the options \['sequence_length', 'threshold'\]"):
        kbert.build_pipeline(pipeline.model, tiny_tokenizer(), pair=True)
    classifier = kbert.BertClassifier(tiny_config(num_layers=1))
    with pytest.raises(ValueError, match=r"a classification model takes .*Received: \['threshold'\]"):
        kbert.build_pipeline(classifier, tiny_tokenizer(), threshold=0.3)


def test_it_is_unknown_before_it_is_registered_and_keeps_its_word(monkeypatch):
    monkeypatch.setattr(registry, "_TASKS", dict(registry._TASKS))
    with pytest.raises(ValueError, match="Expected one of the tasks .* Received: 'politeness'"):
        kbert.build_pipeline(BertPoliteness(tiny_config(num_layers=1)), tiny_tokenizer())
    with pytest.raises(ValueError, match="expected a new word. Received: 'span'"):
        registry.register_task("span", lambda: Politeness)
