"""Which models are offered: those that were named, and those below a log directory; nothing else is read."""

import json
import os
import shutil
import threading

import pytest
from helpers.playground import asking
from werkzeug.test import Client

from kbert.inspection.playground.app import PlaygroundApp
from kbert.inspection.playground.models import PlaygroundModel
from kbert.inspection.playground.sources import found_sources, named_sources


@pytest.fixture
def runs(home, tmp_path):
    """A log directory: a finished run, an unfinished one with two checkpoints, a directory of a model, logs."""
    root = tmp_path / "runs"
    finished, unfinished = root / "finished", root / "deep" / "unfinished"
    for run in (finished, unfinished):
        (run / "logs" / "train").mkdir(parents=True)
        (run / "settings.json").write_text("{}")
    shutil.copytree(home / "models" / "fill_mask", finished / "model")
    (finished / "metrics.json").write_text("{}")
    (unfinished / "checkpoints" / "description").mkdir(parents=True)
    for name in ("config.json", "vocab.txt"):
        shutil.copy(home / "models" / "encoder" / name, unfinished / "checkpoints" / "description" / name)
    for step in (200, 1000):
        (unfinished / "checkpoints" / f"step-{step:010d}").mkdir()
    shutil.copytree(home / "models" / "tagging", root / "tagger")
    return root


def listed(app):
    response = Client(app).get("/api/models")
    assert response.status_code == 200
    return {model["name"]: model for model in response.json["models"]}


def test_what_is_said_of_a_model(app, home):
    models = listed(app)
    assert list(models) == ["fill_mask", "encoder", "span", "tagging", "single", "pair", "regression", "left_to_right"]
    assert models["fill_mask"] == {
        "name": "fill_mask",
        "path": str(home / "models" / "fill_mask"),
        "kind": "kbert",
        "task": "pretraining",
        "layers": 1,
        "heads": 2,
        "hidden_dim": 96,
        "max_length": 19,
        "views": ["masking", "next_sentence", "input_representation", "attention", "fill_mask"],
        "note": "",
    }
    extra = {name: model["views"][4:] for name, model in models.items() if name != "fill_mask"}
    assert extra == {
        "encoder": [],
        "span": ["question_answering"],
        "tagging": ["entities"],
        "single": ["classification"],
        "pair": ["classification"],
        "regression": ["classification"],
        "left_to_right": ["fill_mask"],
    }


def test_listing_loads_no_weights(app, home, monkeypatch):
    monkeypatch.setattr("kbert.inspection.playground.models.load_pretrained", None)
    assert len(listed(PlaygroundApp([home / "models" / "span", home / "models" / "pair"]))) == 2


def test_names(tmp_path):
    def names(*paths):
        return [source.name for source in named_sources(paths)]

    paths = ("runs/tiny", "runs/tiny@2000", "runs/base/model", "saved/reviews/1", "org/bert")
    assert names(*paths) == ["tiny", "tiny@2000", "base", "reviews", "bert"]
    assert names("a/tiny", "b/tiny", "a/tiny") == ["a/tiny", "b/tiny"]


def test_models_below_a_log_directory(runs, home):
    app = PlaygroundApp([home / "models" / "single"], log_dirs=[runs])
    models = listed(app)
    assert list(models) == [
        "single",
        "deep/unfinished",
        "deep/unfinished@200",
        "deep/unfinished@1000",
        "finished",
        "tagger",
    ]
    assert models["deep/unfinished@200"]["task"] == "encoder" and models["deep/unfinished@200"]["layers"] == 3
    assert models["deep/unfinished"]["note"].startswith("The latest checkpoint, now of step 1000:")
    assert models["deep/unfinished@1000"]["note"] == models["finished"]["note"] == ""
    assert models["finished"]["task"] == "pretraining"
    assert asking(app)("fill_mask", model="finished", text="a [MASK]")["fills"]
    assert "deep/unfinished@200" not in listed(PlaygroundApp(log_dirs=[runs / "finished"]))
    assert list(listed(PlaygroundApp(log_dirs=[runs / "tagger"]))) == ["tagger"]
    assert list(listed(PlaygroundApp(log_dirs=[runs / "finished" / "logs"]))) == ["finished"]
    steps = ["unfinished", "unfinished@200", "unfinished@1000"]
    assert list(listed(PlaygroundApp(log_dirs=[runs / "deep" / "unfinished" / "logs"]))) == steps
    assert listed(PlaygroundApp(log_dirs=[runs / "finished" / "logs" / "train"])) == {}


def test_a_model_that_came_later_or_changed(runs, home, tmp_path):
    app = PlaygroundApp(log_dirs=[runs])
    ask = asking(app)
    assert "expected one of the models" in ask("masking", 400, model="later", text="a")["error"]
    shutil.copytree(home / "models" / "span", runs / "later")
    assert ask("masking", model="later", text="a")["loss"] is None and "later" in listed(app)
    assert "Received: one of the task span" in ask("entities", 400, model="later", text="a")["error"]
    shutil.rmtree(runs / "later")
    shutil.copytree(home / "models" / "tagging", tmp_path / "new")
    os.utime(tmp_path / "new", ns=(1, 1))  # another time than before, whatever the clock's resolution
    os.rename(tmp_path / "new", runs / "later")
    assert ask("entities", model="later", text="a")["words"] == ["a"]


def test_a_checkpoint_while_training_goes_on(runs, home, monkeypatch):
    """The run's name means its latest checkpoint; a deleted one answers as long as it is in memory."""
    app, loads = PlaygroundApp(log_dirs=[runs]), []
    encoder = PlaygroundModel.load(home / "models" / "encoder")
    monkeypatch.setattr(PlaygroundModel, "load", lambda source: loads.append(source) or encoder)
    ask, run = asking(app), runs / "deep" / "unfinished"
    listed(app)
    assert ask("masking", model="deep/unfinished@200", text="a film")["tokens"]
    assert ask("masking", model="deep/unfinished", text="a film")["tokens"]
    (run / "checkpoints" / "step-0000000200").rmdir()
    (run / "checkpoints" / "step-0000001200").mkdir()
    models = listed(app)
    assert "deep/unfinished@200" not in models and "deep/unfinished@1200" in models
    assert models["deep/unfinished"]["note"].startswith("The latest checkpoint, now of step 1200:")
    assert ask("masking", model="deep/unfinished@200", text="a film")["tokens"]
    assert loads == [f"{run}@200", str(run)]
    assert ask("masking", model="deep/unfinished", text="a film")["tokens"]
    assert loads == [f"{run}@200", str(run), str(run)]  # the new one


def test_links_that_lead_out_are_not_followed(runs, home, tmp_path):
    outside = tmp_path / "outside"
    shutil.copytree(home / "models" / "span", outside)
    (runs / "linked").symlink_to(outside)
    (runs / "half").mkdir()
    (runs / "half" / "model").symlink_to(outside)
    shutil.copytree(home / "models" / "span", runs / "file")
    (runs / "file" / "vocab.txt").unlink()
    (runs / "file" / "vocab.txt").symlink_to(outside / "vocab.txt")
    (runs / "inside").symlink_to(runs / "tagger")
    names = [source.name for source in found_sources([runs])]
    assert names == ["deep/unfinished", "deep/unfinished@200", "deep/unfinished@1000", "finished", "tagger"]
    ask = asking(PlaygroundApp(log_dirs=[runs]))
    for name in ("linked", "half", "file", str(outside), "../outside", "tagger/../../outside"):
        assert "expected one of the models" in ask("attention", 400, model=name, text="a")["error"]


def test_what_cannot_be_read_says_why(runs):
    config = runs / "tagger" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"kbert": {"nonsense": 1}}))
    (runs / "finished" / "model" / "config.json").write_text("{")
    models = listed(PlaygroundApp(log_dirs=[runs]))
    for name in ("tagger", "finished"):
        assert models[name]["views"] == [] and models[name]["note"].startswith("It cannot be read: ")
    ask = asking(PlaygroundApp(log_dirs=[runs]))
    assert "config.json" in ask("masking", 400, model="finished", text="a")["error"]


def test_places_that_are_not_there(tmp_path):
    assert found_sources(["gs://bucket/logs", tmp_path / "none", tmp_path]) == []
    assert "not" in asking(PlaygroundApp(vocabulary=tmp_path / "none.txt"))("masking", 400, text="a")["error"]


def test_only_a_few_models_stay_in_memory(app, home, monkeypatch):
    kinds = ("fill_mask", "encoder", "span")
    models = app.api.models
    sizes = [models.open(kind).model.count_params() for kind in kinds]
    limit = "kbert.inspection.playground.models._PARAMETERS"
    monkeypatch.setattr(limit, sum(sizes) - 1)
    small = PlaygroundApp([home / "models" / kind for kind in kinds], vocabulary=home / "vocab.txt")
    ask = asking(small)
    for kind in (*kinds, "fill_mask"):
        assert ask("masking", model=kind, text="a film", seed=3)["tokens"]
    assert len(small.api.models._loaded) == 2
    monkeypatch.setattr(limit, 1)
    first, second = (small.api.models.open("encoder") for _ in range(2))
    assert first is second and len(small.api.models._loaded) == 1  # one that is too large by itself stays, too


def test_no_one_waits_while_another_model_is_loaded(home, monkeypatch):
    """What needs no model, and models that are loaded, answer; who asks for the same model gets the same one."""
    app = PlaygroundApp([home / "models" / kind for kind in ("single", "span")], vocabulary=home / "vocab.txt")
    ask, begun, may_end, answers = asking(app), threading.Event(), threading.Event(), []
    assert ask("masking", model="single", text="a film")["tokens"]
    load, loads = PlaygroundModel.load, []

    def slowly(source):
        loads.append(source)
        begun.set()
        assert may_end.wait(60)
        return load(source)

    monkeypatch.setattr(PlaygroundModel, "load", slowly)
    people = [
        threading.Thread(target=lambda: answers.append(ask("masking", model="span", text="a film"))) for _ in range(2)
    ]
    for one in people:
        one.start()
    try:
        assert begun.wait(60)
        for name in (None, "single"):
            assert ask("masking", model=name, text="a film")["tokens"]
        assert not answers
    finally:
        may_end.set()
        for one in people:
            one.join()
    assert len(loads) == 1 and len(answers) == 2 and answers[0] == answers[1]


def test_a_vocabulary_is_learned_where_none_is_given(monkeypatch):
    from kbert.corpus import installed_prose

    sentences = ["The film is good and the song is bad.", "A very good film of Paris is never bad."] * 20
    monkeypatch.setattr(installed_prose, "installed_documents", lambda *_: iter([("python", "m", sentences)]))
    app = PlaygroundApp()
    assert Client(app).get("/api/models").json == {"models": [], "vocabulary_default": True}
    tokens = [token["token"] for token in asking(app)("masking", text="a good film")["tokens"]]
    assert tokens == ["[CLS]", "a", "good", "film", "[SEP]"]
