"""Versions of an export: numbered, whole or not there, never overwritten."""

import errno
import os
import pathlib
import resource
import signal

import pytest
import tensorflow as tf
from helpers.served_models import make_pipeline

import kbert
from kbert.serving.server_ops import TEXT_OPS


@pytest.fixture
def quick_export(monkeypatch):
    """A version holds one file in one directory."""
    monkeypatch.setattr("kbert.models.write_saved_model.write_saved_model", _write_little)
    for name in ("warmup.set_methods", "audit.audit", "card.model_card", "warmup.write_warmup"):
        monkeypatch.setattr(f"kbert.serving.{name}", _Anything())
    monkeypatch.setattr("kbert.files.write_json", _Anything())


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
    with pytest.raises(TypeError, match="or a kbert.Pipeline. Received: BertRegressor"):
        kbert.export(pipeline.model, tmp_path / "other")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match="is a file"):
        kbert.export(pipeline, tmp_path / "file")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "models", "thesis"]


def test_two_exports_at_once(quick_export, tmp_path, monkeypatch):
    """The second would take the same version."""
    pipeline, directory = make_pipeline("regression")[0], tmp_path / "score"

    def export_again(path, card):
        with pytest.raises(BlockingIOError, match=r"/score/1 is in use by process \d+ "):
            kbert.export(pipeline, directory)

    monkeypatch.setattr("kbert.files.write_json", export_again)
    assert kbert.export(pipeline, directory) == directory / "1"
    assert [entry.name for entry in directory.iterdir()] == ["1"]


def test_a_version_that_appears_meanwhile_is_not_replaced(quick_export, tmp_path, monkeypatch):
    """Such as one that is copied there."""
    directory = tmp_path / "score"

    def copy(path, card):
        (directory / "1").mkdir()
        (directory / "1/precious").touch()

    monkeypatch.setattr("kbert.files.write_json", copy)
    with pytest.raises(FileExistsError, match="/score/1 exists: another process wrote it meanwhile"):
        kbert.export(make_pipeline("regression")[0], directory)
    assert [str(entry.relative_to(directory)) for entry in directory.rglob("*")] == ["1", "1/precious"]


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

    monkeypatch.setattr("kbert.serving.warmup.write_warmup", lambda path, _: look(path.parent.parent))
    kbert.export(make_pipeline("regression")[0], tmp_path / "score")
    # Of the names there a server takes those that strtoll reads as a number as a whole.
    assert seen[0].parent == tmp_path / "score" and seen[0].name.startswith(".") and not seen[0].exists()


def test_what_killed_exports_left_is_deleted_but_not_what_is_being_written(quick_export, tmp_path):
    directory = tmp_path / "score"
    for name in (".1.0a1b2c3d.tmp", ".7.4e5f6a7b.tmp"):  # the second is the rival's, of another version
        (directory / name / "variables").mkdir(parents=True)
        (directory / name / "saved_model.pb").write_text("half")
    (directory / ".1.lock").write_text("process 1 on some host")
    assert kbert.export(make_pipeline("regression")[0], directory) == directory / "1"
    assert sorted(entry.name for entry in directory.iterdir()) == [".7.4e5f6a7b.tmp", "1"]
    assert (directory / ".7.4e5f6a7b.tmp/saved_model.pb").is_file()


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

    monkeypatch.setattr("kbert.models.write_saved_model.write_saved_model", fill)
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
