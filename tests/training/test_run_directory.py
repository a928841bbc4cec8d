"""The rule of `--output`: resume, or refuse and say what is there, or delete and say what."""

import json
import os

import pytest

from kbert.files import write_json
from kbert.training.run_directory import open_run

SETTINGS = {"size": "tiny", "steps": 10, "corpus": ["a.txt"]}


def test_a_new_run_writes_its_settings_first(tmp_path):
    run = open_run(tmp_path / "new" / "run", SETTINGS)
    assert not run.resume
    assert json.loads((run.path / "settings.json").read_text()) == SETTINGS
    assert os.listdir(run.path) == ["settings.json"]
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
    with pytest.raises(FileExistsError, match=r"finished run of these settings.*--overwrite.*2 files.*metrics\.json"):
        open_run(tmp_path, SETTINGS)


def test_what_a_kill_left_of_the_model_is_deleted(tmp_path):
    run = open_run(tmp_path, SETTINGS)
    for name in (".model.6d89d9cc.tmp", ".model.6d89d9cc.tmp.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.weights.h5").write_text("x")
    run.finish({}, lambda path: path.mkdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.json", "model", "settings.json"]


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
    assert not run.resume and os.listdir(tmp_path) == ["settings.json"]
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
