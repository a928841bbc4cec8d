"""One process at a time."""

import errno
import fcntl
import os
import pathlib
import subprocess
import sys

import pytest

from kbert.locks import lock_directory, unlock_directory


def test_a_lock_is_given_up_with_its_file(tmp_path):
    lock_directory(tmp_path)
    lock_directory(tmp_path)  # again by the same process: of a run that failed in it
    assert os.listdir(tmp_path) == [".lock"]
    unlock_directory(tmp_path)
    unlock_directory(tmp_path)
    assert not os.listdir(tmp_path)


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch, caplog):
    def none(handle, flags):
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(fcntl, "flock", none)
    lock_directory(tmp_path)
    assert "has no locks" in caplog.text and not os.listdir(tmp_path)


def test_a_lock_on_a_full_disk_does_not_name_its_holder(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pathlib.Path, "write_text", full)
    lock_directory(tmp_path)
    other = "import sys; from kbert.locks import lock_directory; lock_directory(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", other, tmp_path], capture_output=True, text=True)
    assert "is in use by another process. Wait until it has ended" in done.stderr


def test_a_link_as_lock_is_not_written_through(tmp_path):
    (tmp_path / "mine").write_text("mine")
    os.symlink(tmp_path / "mine", tmp_path / ".lock")
    with pytest.raises(OSError):
        lock_directory(tmp_path)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_child_has_no_lock_of_its_parent(tmp_path):
    """A forked process, such as a worker that loads data, neither releases the lock nor deletes its file."""
    lock_directory(tmp_path)
    child = os.fork()
    if not child:
        unlock_directory(tmp_path)
        os._exit(0)
    os.waitpid(child, 0)
    other = "import sys; from kbert.locks import lock_directory; lock_directory(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", other, tmp_path], capture_output=True, text=True)
    assert f"is in use by process {os.getpid()} on " in done.stderr
