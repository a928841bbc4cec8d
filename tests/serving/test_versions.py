"""Versions of an export: numbered, whole or not there, never overwritten."""

import errno
import os
import pathlib
import resource
import signal
import subprocess
import sys

import pytest
import tensorflow as tf
from helpers.paths import ROOT
from helpers.served_models import make_pipeline

import kbert
from kbert.serving.server_ops import TEXT_OPS
from kbert.serving.write_export import partial_version


@pytest.fixture
def quick_export(monkeypatch):
    """The module of `kbert.export`, in which a version holds one file in one directory."""
    import kbert.serving.write_export as module

    monkeypatch.setattr(module, "write_saved_model", _write_little)
    for name in ("set_methods", "audit", "model_card", "write_json", "write_warmup"):
        monkeypatch.setattr(module, name, _Anything())
    return module


def _write_little(directory, endpoints):
    (directory / "variables").mkdir()
    (directory / "variables/data").write_text("weights")


def test_versions(quick_export, tmp_path):
    pipeline = make_pipeline("regression")[0]
    directory = tmp_path / "models" / "score"
    assert kbert.export(pipeline, directory) == directory / "1"
    assert kbert.export(pipeline, str(directory), version=7) == directory / "7"
    assert kbert.export(pipeline, directory) == directory / "8"
    with pytest.raises(FileExistsError, match=r"version 7 of .* exists. Versions: \[1, 7, 8\]"):
        kbert.export(pipeline, directory, version=7)
    (directory / "card.json").write_text("{}")
    assert kbert.export(pipeline, directory) == directory / "9"
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/notes.txt").write_text("precious")
    with pytest.raises(FileExistsError, match="notes.txt"):
        kbert.export(pipeline, tmp_path / "thesis")
    with pytest.raises(TypeError, match="build_pipeline"):
        kbert.export(pipeline.model, tmp_path / "other")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match="which is a file"):
        kbert.export(pipeline, tmp_path / "file")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "models", "thesis"]


def test_two_exports_at_once(quick_export, tmp_path, monkeypatch):
    pipeline, directory, cards = make_pipeline("regression")[0], tmp_path / "score", []

    def rival(path, card):
        cards.append(card)
        if len(cards) % 2:  # has finished first
            (directory / card / "variables").mkdir(parents=True)

    monkeypatch.setattr(quick_export, "write_saved_model", _write_nothing)
    monkeypatch.setattr(quick_export, "model_card", lambda target, *more: target.name)
    monkeypatch.setattr(quick_export, "write_json", rival)
    assert kbert.export(pipeline, directory) == directory / "2" and cards == ["1", "2"]
    assert (directory / "1/variables").is_dir() and not (directory / "2/variables").exists()
    with pytest.raises(FileExistsError, match="version 7 of .* exists"):
        kbert.export(pipeline, directory, version=7)
    assert [entry.name for entry in tmp_path.iterdir()] == ["score"]


def test_a_model_directory_that_is_a_mounted_volume(quick_export, tmp_path, monkeypatch):
    """Nothing can be renamed into or out of a volume: it fails across devices."""
    volume, rename = tmp_path / "volume", os.rename

    def within_the_volume(source, target):
        if pathlib.Path(source).parent != pathlib.Path(target).parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, target)

    monkeypatch.setattr(os, "rename", within_the_volume)
    volume.mkdir()
    tmp_path.chmod(0o555)  # and nothing can be written beside it
    try:
        path = kbert.export(make_pipeline("regression")[0], volume)
    finally:
        tmp_path.chmod(0o755)
    assert path == volume / "1" and (path / "variables/data").read_text() == "weights"
    assert [entry.name for entry in tmp_path.iterdir()] == ["volume"]
    assert [entry.name for entry in volume.iterdir()] == ["1"]


def test_what_is_being_written_is_no_version_to_a_server(quick_export, tmp_path, monkeypatch):
    seen = []

    def look(partial, *_):
        seen.append(pathlib.Path(partial))

    monkeypatch.setattr(quick_export, "write_warmup", lambda path, _: look(path.parent.parent))
    kbert.export(make_pipeline("regression")[0], tmp_path / "score")
    # Of the names there a server takes those that strtoll reads as a number as a whole.
    assert seen[0].parent == tmp_path / "score" and seen[0].name.startswith(".") and not seen[0].exists()


def test_what_killed_exports_left_is_deleted_but_not_what_is_being_written(quick_export, tmp_path):
    pipeline, directory = make_pipeline("regression")[0], tmp_path / "score"
    (directory / ".0a1b2c3d.tmp/variables").mkdir(parents=True)
    (directory / ".0a1b2c3d.tmp/saved_model.pb").write_text("half")
    with partial_version(directory) as being_written:
        (being_written / "saved_model.pb").write_text("half")
        assert kbert.export(pipeline, directory) == directory / "1"
        assert sorted(entry.name for entry in directory.iterdir()) == [being_written.name, "1"]
        assert (being_written / "saved_model.pb").is_file()
    assert [entry.name for entry in directory.iterdir()] == ["1"]


def test_an_export_whose_directory_is_taken_for_abandoned_makes_another(tmp_path, monkeypatch):
    """Another one deletes it between the making and the opening, before it can be locked."""
    opened, taken = os.open, []

    def open_late(path, *arguments, **named):
        if not taken:
            taken.append(path)
            os.rmdir(path)
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", open_late)
    with partial_version(tmp_path / "it") as partial:
        assert taken and partial.is_dir() and partial != taken[0]
    assert not (tmp_path / "it").exists()


@pytest.mark.slow  # test_locks.py
def test_a_killed_process_holds_no_lock(tmp_path):
    code = (
        "import os, pathlib, signal\n"
        "from kbert.serving.write_export import partial_version\n"
        f"with partial_version(pathlib.Path({str(tmp_path)!r})):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == -9
    assert len(list(tmp_path.iterdir())) == 1
    with partial_version(tmp_path) as path:
        assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_all_is_on_the_disk_before_the_version_has_its_name(quick_export, tmp_path, monkeypatch):
    calls, fsync, rename = [], os.fsync, os.rename

    def noted_fsync(handle):
        calls.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    def noted_rename(source, target):
        calls.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    directory = tmp_path / "models/score"
    kbert.export(make_pipeline("regression")[0], directory)
    before, after = calls[: calls.index("rename")], calls[calls.index("rename") + 1 :]
    partial = next(path for path in before if path.endswith(".tmp"))
    files = {"", "/variables", "/variables/data", "/batching_params.pbtxt"}
    assert {path.removeprefix(partial) for path in before if path.startswith(partial)} == files
    assert after == [str(directory), str(directory.parent)]


def test_links(quick_export, tmp_path):
    pipeline = make_pipeline("regression")[0]
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert kbert.export(pipeline, tmp_path / "link") == tmp_path / "link/1"
    assert (tmp_path / "there/1/variables/data").is_file()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    with pytest.raises(NotADirectoryError, match="nowhere is a link to .*gone, which does not exist"):
        kbert.export(pipeline, tmp_path / "nowhere")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("No space left on device"),
        tf.errors.ResourceExhaustedError(None, None, "variables; No space left on device"),
    ],
)
def test_a_full_disk_is_named_and_leaves_nothing(quick_export, tmp_path, monkeypatch, error):
    def fill(directory, endpoints):
        _write_little(directory, endpoints)
        raise error

    monkeypatch.setattr(quick_export, "write_saved_model", fill)
    with pytest.raises(OSError, match=r"/score/1: not written, no space left.* MB are needed") as raised:
        kbert.export(make_pipeline("regression")[0], tmp_path / "score")
    assert raised.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_up_while_weights_are_written(tmp_path):
    """With a real limit: no file may be larger than 100 kB. TensorFlow has an error of its own for that."""
    pipeline, (soft, hard) = make_pipeline("regression")[0], resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="/score/1: not written, file too large: "):
            kbert.export(pipeline, tmp_path / "score")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert not list(tmp_path.iterdir())


def _write_nothing(directory, endpoints):
    pass


class _Anything:
    """Stands for a step of the export that is not looked at."""

    def __call__(self, *arguments, **options):
        return self

    def require_clean(self):
        pass


def test_a_model_that_no_server_runs_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setitem(TEXT_OPS, "NormalizeUTF8", "2.20")
    with pytest.raises(ValueError, match="NormalizeUTF8 is in no server before 2.20"):
        kbert.export(make_pipeline("regression")[0], tmp_path / "score")
    assert not list(tmp_path.iterdir())
