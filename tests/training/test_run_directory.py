"""The rule of `--output`: resume, or refuse and say what is there, or delete and say what."""

import hashlib
import importlib.metadata
import json
import os
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest
from helpers.paths import ROOT

from kbert.files import read_json, sha256, write_directory, write_json
from kbert.training import run_directory
from kbert.training.inputs import describe_inputs, identify_inputs, versions
from kbert.training.run_directory import open_run

SETTINGS = {"size": "tiny", "steps": 10, "corpus": ["a.txt"]}


def test_a_new_run_writes_its_settings_first(tmp_path):
    run = open_run(tmp_path / "new" / "run", SETTINGS)
    assert not run.resume
    assert json.loads((run.path / "settings.json").read_text()) == SETTINGS
    assert sorted(os.listdir(run.path)) == [".lock", "inputs.json", "settings.json"]
    (tmp_path / "empty").mkdir()
    assert not open_run(tmp_path / "empty", SETTINGS).resume


def test_an_unfinished_run_of_the_same_settings_resumes(tmp_path):
    open_run(tmp_path, SETTINGS)
    (tmp_path / "weights").write_text("x")
    run = open_run(tmp_path, SETTINGS | {"corpus": ("a.txt",)})  # a tuple is JSON's list
    assert run.resume and (tmp_path / "weights").exists()


def test_a_finished_run_is_an_error_that_says_what_overwrite_would_delete(tmp_path):
    run = open_run(tmp_path, SETTINGS)
    run.finish({"loss": 1.5})
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"loss": 1.5}
    with pytest.raises(FileExistsError, match=r"finished run of these settings.*--overwrite.*3 files.*metrics\.json"):
        open_run(tmp_path, SETTINGS)


def test_what_a_kill_left_of_the_model_is_deleted(tmp_path):
    run = open_run(tmp_path, SETTINGS)
    for name in (".model.6d89d9cc.tmp", ".model.6d89d9cc.tmp.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.weights.h5").write_text("x")
    run.finish({}, lambda path, made_by: path.mkdir())
    assert sorted(os.listdir(tmp_path)) == ["inputs.json", "metrics.json", "model", "settings.json"]


def test_other_settings_are_an_error_that_names_them(tmp_path):
    open_run(tmp_path, SETTINGS)
    with pytest.raises(FileExistsError, match=r"unfinished run with other settings \(steps: 10 there, 20 now\)"):
        open_run(tmp_path, SETTINGS | {"steps": 20})


def test_other_files_are_an_error(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"other files than a run's.*thesis\.tex"):
        open_run(tmp_path, SETTINGS)
    with pytest.raises(FileExistsError, match="which is a file"):
        open_run(tmp_path / "thesis.tex", SETTINGS)
    assert (tmp_path / "thesis.tex").exists()


def test_overwrite_deletes_and_says_so(tmp_path, capsys):
    open_run(tmp_path, SETTINGS)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "one").write_text("x")
    run = open_run(tmp_path, SETTINGS | {"steps": 20}, overwrite=True)
    assert not run.resume and sorted(os.listdir(tmp_path)) == [".lock", "inputs.json", "settings.json"]
    assert "deleting" in (out := capsys.readouterr().out) and "checkpoints/" in out
    # An unfinished run of the same settings, too: overwriting is what was asked for.
    (tmp_path / "weights").write_text("x")
    assert not open_run(tmp_path, SETTINGS | {"steps": 20}, overwrite=True).resume
    assert not (tmp_path / "weights").exists()


def test_overwrite_does_not_empty_a_checkout_or_where_one_stands(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / "code.py").write_text("x")
    with pytest.raises(ValueError, match="nothing more"):
        open_run(tmp_path, SETTINGS, overwrite=True)
    inside = tmp_path / "a"
    inside.mkdir()
    (inside / "b").write_text("x")
    monkeypatch.chdir(inside)
    with pytest.raises(ValueError, match="nothing more"):
        open_run(".", SETTINGS, overwrite=True)
    assert (tmp_path / "code.py").exists() and (inside / "b").exists()


def test_a_kill_while_writing_settings_leaves_a_new_run(tmp_path):
    (tmp_path / ".settings.json.0.tmp").write_text("{")
    assert not open_run(tmp_path, SETTINGS).resume


def test_json_is_written_whole_or_not_at_all(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"x": object()})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}


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
    assert open_run(tmp_path / "run", SETTINGS, inputs=inputs).resume
    content = {path: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    damage(tmp_path / "data")
    with pytest.raises(ValueError, match=rf"run: a run resumes with the inputs .*{message}.*Put back"):
        open_run(tmp_path / "run", SETTINGS, inputs=inputs)
    for path, was in content.items():
        path.write_bytes(was)  # the content counts, not the time
    assert open_run(tmp_path / "run", SETTINGS, inputs=inputs).resume


def test_files_that_come_and_go_are_named(tmp_path):
    inputs = _inputs(tmp_path / "data")
    inputs = {"corpus": list(inputs.values())[:2]}
    open_run(tmp_path / "run", SETTINGS, inputs=inputs)
    (tmp_path / "data" / "more.txt").write_text("c")
    inputs["corpus"] = [inputs["corpus"][0], tmp_path / "data" / "more.txt"]
    with pytest.raises(ValueError, match=r"more.txt \(--corpus\) is new, .*vocab.txt \(--corpus\) is gone"):
        open_run(tmp_path / "run", SETTINGS, inputs=inputs)


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"inputs": [], "versions": {}, "recorded": ""}'])
def test_a_run_that_cannot_tell_its_inputs_does_not_resume(tmp_path, content):
    open_run(tmp_path, SETTINGS)
    if content is None:
        (tmp_path / "inputs.json").unlink()
    else:
        (tmp_path / "inputs.json").write_text(content)
    with pytest.raises(ValueError, match=r"inputs\.json"):
        open_run(tmp_path, SETTINGS)


def test_damaged_settings_are_named(tmp_path):
    open_run(tmp_path, SETTINGS)
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(FileExistsError, match=r"settings cannot be read: .*settings\.json: not JSON"):
        open_run(tmp_path, SETTINGS)
    assert not open_run(tmp_path, SETTINGS, overwrite=True).resume and read_json(tmp_path / "settings.json") == SETTINGS


def test_other_versions_are_a_warning(tmp_path, capsys):
    open_run(tmp_path, SETTINGS)
    record = read_json(tmp_path / "inputs.json")
    assert set(record["versions"]) == {"kbert", "keras", "tensorflow"}
    assert open_run(tmp_path, SETTINGS).resume and "WARNING" not in capsys.readouterr().out
    write_json(tmp_path / "inputs.json", record | {"versions": record["versions"] | {"keras": "2.0"}})
    assert open_run(tmp_path, SETTINGS).resume
    assert f"other versions (keras 2.0 then, {record['versions']['keras']} now)" in capsys.readouterr().out


def test_metrics_that_are_not_finite_do_not_finish_a_run(tmp_path):
    run = open_run(tmp_path, SETTINGS)
    (tmp_path / "checkpoints" / "step-0000000010").mkdir(parents=True)
    with pytest.raises(FloatingPointError, match=r"metrics\.json: .*dev\.loss = nan, dev\.each\.1 = inf.*is kept"):
        run.finish({"steps": 10, "dev": {"loss": float("nan"), "each": [1.0, float("inf")]}}, lambda *_: 1 / 0)
    assert not (tmp_path / "metrics.json").exists() and (tmp_path / "checkpoints" / "step-0000000010").exists()


def test_a_run_is_finished_in_an_order_that_survives_a_loss_of_power(tmp_path, monkeypatch):
    """The model is on the disk, and its name, before metrics.json gets its name; only then checkpoints go."""
    run = open_run(tmp_path, SETTINGS)
    (tmp_path / "checkpoints" / "step-0000000010").mkdir(parents=True)
    events = []
    fsync, rename, replace, rmtree = os.fsync, os.rename, os.replace, shutil.rmtree

    def note(kind, function, name):
        def noted(path, *args, **kwargs):
            events.append((kind, name(path, *args)))
            return function(path, *args, **kwargs)

        return noted

    def handle_name(handle):
        return os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"), tmp_path)

    monkeypatch.setattr(os, "fsync", note("fsync", fsync, handle_name))
    for kind, function in (("rename", rename), ("replace", replace)):
        monkeypatch.setattr(os, kind, note(kind, function, lambda old, new: os.path.relpath(new, tmp_path)))
    monkeypatch.setattr(shutil, "rmtree", note("rmtree", rmtree, lambda path, *_: os.path.relpath(path, tmp_path)))
    run.finish(
        {"loss": 1.0}, lambda path, made_by: write_directory(path, lambda place: (place / "weights").write_text("w"))
    )
    weights = next(i for i, (kind, name) in enumerate(events) if kind == "fsync" and name.endswith(".tmp/weights"))
    model, metrics = events.index(("rename", "model")), events.index(("replace", "metrics.json"))
    named = [i for i, event in enumerate(events) if event == ("fsync", ".")]
    deleted = events.index(("rmtree", "checkpoints"))
    assert weights < model < metrics < deleted
    assert any(model < i < metrics for i in named), "the model's name is flushed before metrics.json is there"
    assert any(metrics < i < deleted for i in named), "metrics.json's name is flushed before checkpoints are deleted"


HOLDER = """
import sys, time
from kbert.files import lock_directory
lock_directory(sys.argv[1])
print("held", flush=True)
time.sleep(300)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds `tmp_path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_directory_has_one_holder_which_a_dead_process_is_not(tmp_path, holder):
    with pytest.raises(BlockingIOError, match=rf"in use by process {holder.pid} on {socket.gethostname()} since 20"):
        open_run(tmp_path, SETTINGS)
    with pytest.raises(BlockingIOError, match="in use"):
        open_run(tmp_path, SETTINGS, overwrite=True)
    assert os.listdir(tmp_path) == [".lock"]  # nothing was written, and the lock stays the holder's
    holder.kill()
    holder.wait()
    run = open_run(tmp_path, SETTINGS)
    assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on ")
    run.finish({})
    assert ".lock" not in os.listdir(tmp_path)


def test_of_two_that_start_at_once_the_second_deletes_nothing(tmp_path, monkeypatch):
    def other_was_first(path):
        (path / "settings.json").write_text("{}")
        raise BlockingIOError("in use")

    monkeypatch.setattr(run_directory, "lock_directory", other_was_first)
    with pytest.raises(BlockingIOError):
        open_run(tmp_path / "run", SETTINGS)
    assert (tmp_path / "run" / "settings.json").exists()


def test_a_refused_directory_is_left_as_it_was(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError):
        open_run(tmp_path, SETTINGS)
    with pytest.raises(FileNotFoundError, match="nowhere.csv"):
        open_run(tmp_path / "new", SETTINGS, inputs={"train": tmp_path / "nowhere.csv"})
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_what_a_model_says_of_its_run_leads_back_to_the_first(tmp_path):
    first = open_run(tmp_path / "first", SETTINGS, inputs=_inputs(tmp_path / "data"), recipe="pretrain.py")
    made_by = first.made_by({"loss": 2.0})
    assert made_by["recipe"] == "pretrain.py" and made_by["metrics"] == {"loss": 2.0}
    assert made_by["settings"] == SETTINGS and set(made_by["versions"]) == {"kbert", "keras", "tensorflow"}
    train = tmp_path / "data" / "train.csv"
    described = {"name": "train.csv", "files": 1, "bytes": train.stat().st_size, "sha256": sha256(train)}
    assert made_by["inputs"]["train"] == described
    model = tmp_path / "first" / "model"
    model.mkdir()
    write_json(model / "config.json", {"format": "kbert"})
    (model / "model.weights.h5").write_text("w")
    write_json(model / "manifest.json", {"made_by": made_by})
    inputs = {"init": model, "train": train}
    second = open_run(tmp_path / "second", SETTINGS | {"init": str(model)}, inputs=inputs, recipe="finetune.py")
    init = second.made_by({})["inputs"]["init"]
    lines = "".join(f"{sha256(model / name)}  {name}\n" for name in ("config.json", "model.weights.h5"))
    assert init["sha256"] == hashlib.sha256(lines.encode()).hexdigest() and init["name"] == "first/model"
    assert init["made_by"] == made_by
    assert str(tmp_path) not in json.dumps(second.made_by({}))


class Constant:
    def __init__(self, settings):
        self.settings = settings

    def __call__(self, steps):
        return 0.1 + 0 * steps


class Decay(Constant):
    def __call__(self, steps):
        return 1 - steps / self.settings["steps"]


def _at_step(path, step, finished):
    run = open_run(path, SETTINGS)
    for saved in (step - 1, step):
        (path / "checkpoints" / f"step-{saved:010d}").mkdir(parents=True)
    if finished:
        run.finish({"loss": 1.0}, keep_checkpoint=True)
        assert [entry.name for entry in (path / "checkpoints").iterdir()] == [f"step-{step:010d}"]


@pytest.mark.parametrize("finished", [False, True])
def test_a_run_is_extended_where_its_past_stays_the_same(tmp_path, finished, capsys):
    _at_step(tmp_path, 10, finished)
    with pytest.raises(FileExistsError, match="with other settings .steps: 10 there, 20 now"):
        open_run(tmp_path, SETTINGS | {"steps": 20})
    with pytest.raises(FileExistsError, match="depends on the number of steps: at step 1 it was 0.9, of 20 .* 0.95"):
        open_run(tmp_path, SETTINGS | {"steps": 20}, schedule=Decay)
    with pytest.raises(FileExistsError, match="10 of which are done: it cannot be given 9 steps"):
        open_run(tmp_path, SETTINGS | {"steps": 9}, schedule=Constant)
    assert (tmp_path / "metrics.json").exists() == finished
    assert open_run(tmp_path, SETTINGS | {"steps": 20}, schedule=Constant).resume
    assert "20 steps instead of 10, 10 of which are done" in capsys.readouterr().out
    assert not (tmp_path / "metrics.json").exists() and read_json(tmp_path / "settings.json")["steps"] == 20


def test_a_finished_run_without_its_checkpoint_cannot_be_extended(tmp_path):
    open_run(tmp_path, SETTINGS).finish({})
    with pytest.raises(FileExistsError, match="whose checkpoint was deleted.*--init"):
        open_run(tmp_path, SETTINGS | {"steps": 20}, schedule=Constant)


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


def test_a_run_that_a_longer_warmup_keeps_from_being_extended_says_which_was_used(tmp_path):
    settings = SETTINGS | {"warmup_steps": 1}
    run = open_run(tmp_path, settings)
    (tmp_path / "checkpoints" / "step-0000000010").mkdir(parents=True)
    run.finish({}, keep_checkpoint=True)
    longer = settings | {"steps": 20, "warmup_steps": 2}

    def constant(settings):
        return lambda steps: np.minimum(steps / settings["warmup_steps"], 1.0)

    with pytest.raises(FileExistsError, match="started with 1 steps of warm-up.* would have 2. Give --warmup-steps 1:"):
        open_run(tmp_path, longer, schedule=constant)
    with pytest.raises(FileExistsError, match="depends on the number of steps: at step 1 it was 0.9, of 20 .* 0.95"):
        open_run(tmp_path, longer, schedule=Decay)
    assert open_run(tmp_path, longer | {"warmup_steps": 1}, schedule=constant).resume
