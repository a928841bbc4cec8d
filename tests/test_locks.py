"""One process at a time."""

import errno
import fcntl
import os

import pytest

from kbert.files import FullDisk
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


def test_a_lock_on_a_full_disk_is_named_and_not_kept(tmp_path, monkeypatch):
    def full(handle, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(FullDisk, match="/.lock: not written, no space left on device"):
        patch.setattr(os, "write", full)
        lock_directory(tmp_path)
    assert not os.listdir(tmp_path)
