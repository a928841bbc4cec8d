"""What a run knows of its inputs, and what it does where they, its versions or its number of steps have changed."""

import hashlib
import importlib.metadata
import json
import os

import pytest
from helpers import tiny_pretraining as tiny
from helpers.compare import assert_arrays_equal

from kbert.files import read_json, sha256, write_json
from kbert.optim.adamw import AdamW
from kbert.optim.warmup_stable_decay import WarmupStableDecay
from kbert.training.made_by import identify_inputs
from kbert.training.run_directory import open_run
from kbert.versions import versions
from kbert.weights.provenance import describe_inputs, describe_maker, run_record

SETTINGS = {"size": "tiny", "steps": 10, "corpus": ["a.txt"]}


def _inputs(directory):
    directory.mkdir(exist_ok=True)
    (directory / "train.csv").write_text("text,label\na,0\nb,1\n")
    (directory / "vocab.txt").write_text("[PAD]\n[UNK]\na\nb\n")
    return {"train": directory / "train.csv", "vocab": directory / "vocab.txt", "dev": None}


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda d: (d / "train.csv").write_text("text,label\na,1\nb,0\n"), r"train.csv \(--train\) has changed"),
        (lambda d: (d / "vocab.txt").write_text("[PAD]\n[UNK]\nb\na\n"), r"vocab.txt \(--vocab\) has changed"),
    ],
)
def test_a_run_whose_inputs_have_changed_does_not_resume(tmp_path, damage, message):
    inputs = _inputs(tmp_path / "data")
    open_run(tmp_path / "run", SETTINGS, inputs=inputs)
    assert open_run(tmp_path / "run", SETTINGS, inputs=inputs).is_resumed
    content = {path: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    damage(tmp_path / "data")
    with pytest.raises(
        ValueError, match=rf"run: a run resumes with the inputs .*{message}.*Restore the original inputs"
    ):
        open_run(tmp_path / "run", SETTINGS, inputs=inputs)
    for path, was in content.items():
        path.write_bytes(was)  # the content counts, not the time
    assert open_run(tmp_path / "run", SETTINGS, inputs=inputs).is_resumed


def test_files_that_come_and_go_are_named(tmp_path):
    inputs = _inputs(tmp_path / "data")
    inputs = {"corpus": list(inputs.values())[:2]}
    open_run(tmp_path / "run", SETTINGS, inputs=inputs)
    (tmp_path / "data" / "more.txt").write_text("c")
    inputs["corpus"] = [inputs["corpus"][0], tmp_path / "data" / "more.txt"]
    with pytest.raises(ValueError, match=r"more.txt \(--corpus\) is new, .*vocab.txt \(--corpus\) is gone"):
        open_run(tmp_path / "run", SETTINGS, inputs=inputs)


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_run_that_cannot_tell_its_inputs_does_not_resume(tmp_path, content):
    open_run(tmp_path, SETTINGS)
    if content is None:
        (tmp_path / "inputs.json").unlink()
    else:
        (tmp_path / "inputs.json").write_text(content)
    with pytest.raises((FileNotFoundError, ValueError), match=r"inputs\.json"):
        open_run(tmp_path, SETTINGS)


def test_other_versions_are_a_warning(tmp_path, caplog):
    open_run(tmp_path, SETTINGS)
    record = read_json(tmp_path / "inputs.json")
    assert record["versions"] == versions() and {"kbert", "keras", "tensorflow"} <= set(versions())
    assert open_run(tmp_path, SETTINGS).is_resumed and "WARNING" not in caplog.text
    write_json(tmp_path / "inputs.json", record | {"versions": record["versions"] | {"keras": "2.0"}})
    assert open_run(tmp_path, SETTINGS).is_resumed
    assert f"other versions (keras 2.0 then, {record['versions']['keras']} now)" in caplog.text


def test_what_a_model_says_of_its_run_leads_back_to_the_first(tmp_path):
    first = open_run(tmp_path / "first", SETTINGS, inputs=_inputs(tmp_path / "data"), recipe="pretrain.py")
    made_by = run_record(first.path) | {"metrics": {"loss": 2.0}}
    assert made_by["recipe"] == "pretrain.py" and made_by["metrics"] == {"loss": 2.0}
    assert made_by["settings"] == SETTINGS and made_by["versions"] == versions()
    train = tmp_path / "data" / "train.csv"
    described = {"name": "train.csv", "files": 1, "bytes": train.stat().st_size, "sha256": sha256(train)}
    assert made_by["inputs"]["train"] == described
    model = tmp_path / "first" / "model"
    model.mkdir()
    write_json(model / "config.json", {"model_type": "bert"})
    (model / "model.safetensors").write_text("w")
    write_json(model / "kbert.json", {"sha256": {}, "made_by": made_by})
    inputs = {"init": model, "train": train}
    second = open_run(tmp_path / "second", SETTINGS | {"init": str(model)}, inputs=inputs, recipe="finetune.py")
    init = run_record(second.path)["inputs"]["init"]
    lines = "".join(f"{sha256(model / name)}  {name}\n" for name in ("config.json", "model.safetensors"))
    assert init["sha256"] == hashlib.sha256(lines.encode()).hexdigest() and init["name"] == "first/model"
    assert init["made_by"] == made_by
    assert str(tmp_path) not in json.dumps(run_record(second.path))
    checkpoint = tmp_path / "second" / "checkpoints" / "step-0000000005"
    checkpoint.mkdir(parents=True)
    write_json(checkpoint / "manifest.json", {"step": 5})
    third = open_run(tmp_path / "third", SETTINGS, inputs={"init": checkpoint}, recipe="finetune.py")
    expected = {name: value for name, value in run_record(second.path).items() if name != "metrics"}
    assert run_record(third.path)["inputs"]["init"]["made_by"] == expected | {"step": 5}
    assert describe_maker(checkpoint) == expected | {"step": 5}
    checkpoint.rename(tmp_path / "step-0000000005")
    assert describe_maker(tmp_path / "step-0000000005") is None  # nothing tells of the run


def test_a_model_of_the_hub_is_the_commit_that_was_found(tmp_path, monkeypatch):
    """In the layout of huggingface_hub's cache, read by itself without a network."""
    pytest.importorskip("huggingface_hub")
    import huggingface_hub.constants

    def no_network():
        raise ConnectionError

    monkeypatch.setattr("huggingface_hub.get_session", no_network)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    repository = tmp_path / "cache" / "models--owner--bert"
    (repository / "refs").mkdir(parents=True)
    commits = ["a" * 40, "b" * 40]
    for commit in commits:
        snapshot = repository / "snapshots" / commit
        snapshot.mkdir(parents=True)
        write_json(snapshot / "config.json", {"model_type": "bert"})
        (snapshot / "model.safetensors").write_bytes(b"weights")
        (snapshot / "vocab.txt").write_text("[PAD]\n")
    (repository / "refs" / "main").write_text(commits[0])
    inputs = {"init": "owner/bert"}
    run = open_run(tmp_path / "run", SETTINGS, inputs=inputs)
    files = read_json(tmp_path / "run" / "inputs.json")["inputs"]["init"]
    names = ("config.json", "model.safetensors", "vocab.txt")
    assert set(files) == {f"owner/bert@{commits[0]}/{name}" for name in names}
    assert run_record(run.path)["inputs"]["init"]["name"] == f"bert@{commits[0]}"
    files = identify_inputs({"init": f"owner/bert@{commits[1]}"})["init"]
    assert set(files) == {f"owner/bert@{commits[1]}/{name}" for name in names}
    (tmp_path / "cache").rename(tmp_path / "elsewhere")  # the model counts, not where it is cached
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "elsewhere"))
    assert open_run(tmp_path / "run", SETTINGS, inputs=inputs).is_resumed
    (tmp_path / "elsewhere" / "models--owner--bert" / "refs" / "main").write_text(commits[1])
    with pytest.raises(ValueError, match=r"owner/bert@a{40}/config.json \(--init\) is gone"):
        open_run(tmp_path / "run", SETTINGS, inputs=inputs)


def _at_step(path, step, finished):
    run = open_run(path, SETTINGS)
    for saved in (step - 1, step):
        (path / "checkpoints" / f"step-{saved:010d}").mkdir(parents=True)
    if finished:
        run.finish({"loss": 1.0}, keep_checkpoint=True)
        assert [entry.name for entry in (path / "checkpoints").iterdir()] == [f"step-{step:010d}"]


@pytest.mark.parametrize("finished", [False, True])
def test_a_run_is_extended_where_its_past_stays_the_same(tmp_path, finished, caplog):
    _at_step(tmp_path, 10, finished)
    with pytest.raises(FileExistsError, match="with other settings .steps: 10 there, 20 now"):
        open_run(tmp_path, SETTINGS | {"steps": 20})
    with pytest.raises(FileExistsError, match="with other settings .seed: None there, 1 now, steps: 10 there, 20 now"):
        open_run(tmp_path, SETTINGS | {"steps": 20, "seed": 1}, extendable=True)
    with pytest.raises(FileExistsError, match="10 of which are done: it cannot be given 9 steps"):
        open_run(tmp_path, SETTINGS | {"steps": 9}, extendable=True)
    assert (tmp_path / "metrics.json").exists() == finished
    assert open_run(tmp_path, SETTINGS | {"steps": 20}, extendable=True).is_resumed
    assert "20 steps instead of 10, 10 of which are done" in caplog.text
    assert not (tmp_path / "metrics.json").exists() and read_json(tmp_path / "settings.json")["steps"] == 20


def test_a_finished_run_without_its_checkpoint_cannot_be_extended(tmp_path):
    open_run(tmp_path, SETTINGS).finish({})
    with pytest.raises(FileExistsError, match="checkpoint was deleted.*--init"):
        open_run(tmp_path, SETTINGS | {"steps": 20}, extendable=True)


class Worker:
    """Stands for the hardware of one of two workers."""

    def __init__(self, is_chief, problem=None):
        self.is_chief, self.problem, self.told = is_chief, problem, []

    def wait_for_all(self, problem=None):
        self.told.append(problem)
        if self.problem:
            raise RuntimeError(self.problem)


def test_the_first_worker_tells_the_others_what_is_wrong(tmp_path):
    inputs = _inputs(tmp_path / "data")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("years of work")
    chief = Worker(True)
    with pytest.raises(FileExistsError, match="thesis"):
        open_run(tmp_path / "run", SETTINGS, hardware=chief, inputs=inputs)
    assert len(chief.told) == 1 and "thesis.tex" in chief.told[0]
    with pytest.raises(RuntimeError, match="thesis"):
        open_run(tmp_path / "run", SETTINGS, hardware=Worker(False, chief.told[0]), inputs=inputs)
    assert os.listdir(tmp_path / "run") == ["thesis.tex"]


def test_every_worker_reads_the_same_inputs(tmp_path):
    inputs, chief = _inputs(tmp_path / "data"), Worker(True)
    open_run(tmp_path / "run", SETTINGS, hardware=chief, inputs=inputs)
    assert chief.told == [None]
    assert not open_run(tmp_path / "run", SETTINGS, hardware=Worker(False), inputs=inputs).is_chief
    inputs["train"].write_text("what another machine has under this name")
    with pytest.raises(ValueError, match=r"train.csv \(--train\) has changed"):
        open_run(tmp_path / "run", SETTINGS, hardware=Worker(False), inputs=inputs)


def test_inputs_are_described_however_their_paths_are_given(tmp_path, monkeypatch):
    """Absolute and relative ones together, too: a run that cannot say what it read would fail at its end."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    mixed, relative, absolute = (
        describe_inputs(identify_inputs({"corpus": files}))["corpus"]
        for files in (["a.txt", tmp_path / "b.txt"], ["a.txt", "b.txt"], [tmp_path / "a.txt", tmp_path / "b.txt"])
    )
    assert mixed == relative == absolute and mixed["name"] == tmp_path.name and mixed["files"] == 2


@pytest.mark.parametrize("given", ["google", "google/model-20"])
def test_tensorflow_checkpoints_of_any_name_are_identified(tmp_path, given):
    """kbert reads every prefix, and of several that which `checkpoint` names."""
    directory = tmp_path / "google"
    directory.mkdir()
    for name in ("bert_config.json", "vocab.txt", "checkpoint", "model-20.index", "model-20.data-00000-of-00001"):
        (directory / name).write_text(name)
    before = identify_inputs({"init": tmp_path / given})
    for name in ("vocab.txt", "model-20.index", "model-20.data-00000-of-00001"):
        (directory / name).write_text("other")
        assert identify_inputs({"init": tmp_path / given}) != before
        (directory / name).write_text(name)
    (directory / "model-30.index").write_text("a later one")
    (directory / "checkpoint").write_text("model-30")
    assert (identify_inputs({"init": tmp_path / given}) != before) == (given == "google")


def test_tensorflow_of_another_distribution_has_a_version(monkeypatch):
    found = importlib.metadata.version

    def version(name):
        if name == "tensorflow":
            raise importlib.metadata.PackageNotFoundError(name)
        return found(name)

    before = versions()
    monkeypatch.setattr(importlib.metadata, "version", version)
    assert versions() == before and "tensorflow" in before


def test_every_worker_has_the_same_settings(tmp_path):
    inputs = _inputs(tmp_path / "data")
    given = SETTINGS | {"train": "/here/train.csv"}
    open_run(tmp_path / "run", given, hardware=Worker(True), inputs=inputs)
    elsewhere = given | {"train": "/elsewhere/train.csv"}  # of the same content
    assert not open_run(tmp_path / "run", elsewhere, hardware=Worker(False), inputs=inputs).is_resumed
    with pytest.raises(ValueError, match="every worker must have .* steps: 10 there, 20 here"):
        open_run(tmp_path / "run", given | {"steps": 20}, hardware=Worker(False), inputs=inputs)


def _model():
    return tiny.compiled_model(optimizer=AdamW(WarmupStableDecay(0.01, 3)))


def _train(path, steps):
    """What a recipe does: opens the run, trains, finishes. Returns all weights and states."""
    run = open_run(path, {"steps": steps}, extendable=True)
    model = tiny.reused(_model)
    history = tiny.train(model, tiny.make_dataset, steps, path, window=2)
    run.finish({"loss": history[-1]["loss"]}, keep_checkpoint=True)
    return [variable.numpy() for variable in model.variables], history


@pytest.mark.slow  # test_resume.py
@pytest.mark.usefixtures("eagerly")
def test_a_finished_run_that_is_extended_is_the_longer_run(tmp_path):
    whole, expected = _train(tmp_path / "whole", 5)
    _train(tmp_path / "extended", 3)  # no multiple of the window
    extended, history = _train(tmp_path / "extended", 5)
    assert_arrays_equal(extended, whole)
    assert [record["step"] for record in history] == [2, 3, 4, 5] and history[-1]["loss"] == expected[-1]["loss"]
    left = [entry.name for entry in (tmp_path / "extended" / "checkpoints").iterdir()]
    assert left == ["step-0000000005"]
