"""The rule of `--output`: resume, or refuse and say what is there, or delete and say what."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import types

import pytest
from helpers.paths import ROOT

from kbert.files import read_json, write_directory
from kbert.training import run_directory
from kbert.training.made_by import note_origin
from kbert.training.run_directory import open_run

SETTINGS = {"size": "tiny", "steps": 10, "corpus": ["a.txt"]}


def test_a_new_run_writes_its_settings_first(tmp_path):
    run = open_run(tmp_path / "new" / "run", SETTINGS)
    assert not run.is_resumed
    assert json.loads((run.path / "settings.json").read_text()) == SETTINGS
    assert sorted(os.listdir(run.path)) == [".lock", "inputs.json", "settings.json"]
    (tmp_path / "empty").mkdir()
    assert not open_run(tmp_path / "empty", SETTINGS).is_resumed


def test_a_run_in_a_directory_that_may_not_be_read(tmp_path, monkeypatch):
    """Mode 711, as homes of clusters have it; root may read it."""
    (tmp_path / "run").mkdir()
    flush = run_directory.flush

    def flush_what_is_ones_own(path):
        if path == tmp_path:
            raise PermissionError(13, "Permission denied", str(path))
        flush(path)

    monkeypatch.setattr(run_directory, "flush", flush_what_is_ones_own)
    assert not open_run(tmp_path / "run", SETTINGS).is_resumed
    assert sorted(os.listdir(tmp_path / "run")) == [".lock", "inputs.json", "settings.json"]


def test_an_unfinished_run_of_the_same_settings_resumes(tmp_path):
    open_run(tmp_path, SETTINGS)
    (tmp_path / "weights").write_text("x")
    run = open_run(tmp_path, SETTINGS | {"corpus": ("a.txt",)})  # a tuple is JSON's list
    assert run.is_resumed and (tmp_path / "weights").exists()


def test_a_run_resumes_with_settings_that_it_lacks_if_they_are_none(tmp_path):
    for there, now in ((SETTINGS, SETTINGS | {"held_out": None}), (SETTINGS | {"held_out": None}, SETTINGS)):
        path = tmp_path / f"{len(there)}"
        open_run(path, there)
        assert open_run(path, now).is_resumed
        with pytest.raises(FileExistsError, match=r"with other settings \(held_out: None there, 0.1 now\)"):
            open_run(path, SETTINGS | {"held_out": 0.1})
        open_run(path, now).finish({})
        with pytest.raises(FileExistsError, match="the finished run of these settings"):
            open_run(path, now)


def test_a_finished_run_is_an_error_that_says_what_overwrite_would_delete(tmp_path):
    run = open_run(tmp_path, SETTINGS)
    run.finish({"loss": 1.5})
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"loss": 1.5}
    with pytest.raises(FileExistsError, match=r"finished run of these settings.*--overwrite.*3 files.*metrics\.json"):
        open_run(tmp_path, SETTINGS)


def test_a_finished_run_says_how_to_use_its_model(tmp_path):
    open_run(tmp_path, SETTINGS).finish({}, lambda path, made_by: path.mkdir())
    hint = f'To use its model, kbert.load_pretrained("{tmp_path}"). To train again, take another output, or overwrite'
    for settings in (SETTINGS, SETTINGS | {"steps": 20}):
        with pytest.raises(FileExistsError, match=re.escape(hint)):
            open_run(tmp_path, settings)


def test_what_a_kill_left_of_the_model_is_deleted(tmp_path):
    run = open_run(tmp_path, SETTINGS)
    for name in (".model.6d89d9cc.tmp", ".model.6d89d9cc.tmp.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text("x")
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
    with pytest.raises(NotADirectoryError, match="is a file"):
        open_run(tmp_path / "thesis.tex", SETTINGS)
    assert (tmp_path / "thesis.tex").exists()


def test_what_a_run_decides_itself_is_stored_and_not_compared(tmp_path):
    run = open_run(tmp_path / "run", SETTINGS, choices={"packed": None})
    assert run.settings["packed"] is None
    run.decide(packed=True)
    assert read_json(tmp_path / "run" / "settings.json") == json.loads(json.dumps(SETTINGS | {"packed": True}))
    for given in (None, True):
        run = open_run(tmp_path / "run", SETTINGS, choices={"packed": given})
        assert run.is_resumed and run.settings["packed"] is True
    for settings, packed in ((SETTINGS, False), (SETTINGS | {"steps": 20}, None)):
        with pytest.raises(FileExistsError, match="an unfinished run with other settings"):
            open_run(tmp_path / "run", settings, choices={"packed": packed})
    run.finish({})
    with pytest.raises(FileExistsError, match="the finished run of these settings"):
        open_run(tmp_path / "run", SETTINGS, choices={"packed": None})


def test_checkpoints_that_a_kill_left_in_a_finished_run_are_deleted(tmp_path):
    run = open_run(tmp_path, SETTINGS)
    run.finish({})
    (tmp_path / "checkpoints" / "step-0000000010").mkdir(parents=True)
    assert open_run(tmp_path, SETTINGS, reuse=True).is_finished
    assert not (tmp_path / "checkpoints").exists()


def test_a_model_of_a_run_without_output_is_described_without_its_inputs():
    run = open_run(None, SETTINGS | {"teacher": "a/b", "dev": 0.1}, inputs={"teacher": "a/b", "dev": None}, recipe="r")
    model = types.SimpleNamespace()
    note_origin(model, run, {})
    assert model.provenance.made_by["run"]["settings"] == SETTINGS | {"dev": 0.1}


@pytest.mark.parametrize("written", [False, True])
def test_a_beginning_that_fails_leaves_only_records(tmp_path, written):
    run = open_run(tmp_path / "run", SETTINGS)
    with pytest.raises(OSError, match="disk"), run.beginning():
        if written:
            (tmp_path / "run" / "records").mkdir()
            (tmp_path / "run" / "records" / "train-00000.tokens").touch()
        raise OSError("disk")
    assert (tmp_path / "run").exists() is written


def test_overwrite_deletes_and_says_so(tmp_path, caplog):
    open_run(tmp_path, SETTINGS)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "one").write_text("x")
    run = open_run(tmp_path, SETTINGS | {"steps": 20}, overwrite=True)
    assert not run.is_resumed and sorted(os.listdir(tmp_path)) == [".lock", "inputs.json", "settings.json"]
    assert "deleting" in (out := caplog.text) and "checkpoints/" in out
    # An unfinished run of the same settings, too: overwriting is what was asked for.
    (tmp_path / "weights").write_text("x")
    assert not open_run(tmp_path, SETTINGS | {"steps": 20}, overwrite=True).is_resumed
    assert not (tmp_path / "weights").exists()


@pytest.mark.parametrize("there", [None, "directory", "link"])
def test_a_run_that_cannot_begin_leaves_what_was_there(tmp_path, monkeypatch, there):
    path = tmp_path / "run"
    if there == "link":
        (tmp_path / "disk").mkdir()
        path.symlink_to(tmp_path / "disk")
    elif there:
        path.mkdir()
    for _ in range(2):  # the lock is given up
        run = open_run(path, SETTINGS)
        (path / "checkpoints").mkdir()
        run.discard()
        assert path.exists() == (there is not None) and path.is_symlink() == (there == "link")
        assert there is None or not list(path.iterdir())
    run = open_run(path, SETTINGS)
    monkeypatch.setattr(run_directory, "_delete_contents", lambda path: os.rmdir(path))
    run.discard()  # says nothing


def test_overwrite_never_deletes_an_input_of_the_run(tmp_path):
    corpus, other = tmp_path / "run" / "texts" / "corpus.txt", tmp_path / "vocab.txt"
    corpus.parent.mkdir(parents=True)
    for file in (corpus, other):
        file.write_text("a b .\n")
    with pytest.raises(ValueError, match=r"--overwrite would delete an input .*--corpus.*corpus\.txt.* Nothing"):
        open_run(tmp_path / "run", SETTINGS, overwrite=True, inputs={"vocab": other, "corpus": [corpus]})
    with pytest.raises(FileNotFoundError):
        open_run(tmp_path / "run", SETTINGS, overwrite=True, inputs={"corpus": [tmp_path / "none.txt"]})
    assert corpus.read_text() == "a b .\n"
    assert not open_run(tmp_path / "run", SETTINGS, overwrite=True, inputs={"vocab": other}).is_resumed
    assert not corpus.exists()


def test_overwrite_does_not_empty_a_checkout_or_where_one_stands(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / "code.py").write_text("x")
    with pytest.raises(ValueError, match="--overwrite never empties"):
        open_run(tmp_path, SETTINGS, overwrite=True)
    inside = tmp_path / "a"
    inside.mkdir()
    (inside / "b").write_text("x")
    monkeypatch.chdir(inside)
    with pytest.raises(ValueError, match="--overwrite never empties"):
        open_run(".", SETTINGS, overwrite=True)
    assert (tmp_path / "code.py").exists() and (inside / "b").exists()


def test_a_kill_while_writing_settings_leaves_a_new_run(tmp_path):
    (tmp_path / ".settings.json.0.tmp").write_text("{")
    assert not open_run(tmp_path, SETTINGS).is_resumed


def test_damaged_settings_are_named(tmp_path):
    open_run(tmp_path, SETTINGS)
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(ValueError, match=r"settings\.json: not JSON"):
        open_run(tmp_path, SETTINGS)
    assert (
        not open_run(tmp_path, SETTINGS, overwrite=True).is_resumed
        and read_json(tmp_path / "settings.json") == SETTINGS
    )


def test_metrics_that_are_not_finite_do_not_finish_a_run(tmp_path):
    run = open_run(tmp_path, SETTINGS)
    (tmp_path / "checkpoints" / "step-0000000010").mkdir(parents=True)
    with pytest.raises(FloatingPointError, match=r"metrics\.json: .*dev\.each\.1 = inf, dev\.loss = nan.*is kept"):
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
from kbert.locks import lock_directory
lock_directory(sys.argv[1])
print("held", flush=True)
time.sleep(300)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds `tmp_path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
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
