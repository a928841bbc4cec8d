"""What h5py cannot write is an error, and nothing else is printed."""

import errno

import pytest
from helpers.tiny_bert import tiny_config, tiny_tokenizer

import kbert
from kbert.files import FullDisk
from kbert.weights.files.h5_write import h5_errors_raised


class Unwritten:
    """An object that fails as h5py's do when the disk is full."""

    def __del__(self):
        raise RuntimeError("Can't decrement id ref count (file write failed: 'No space left on device')")


def test_what_is_only_printed_is_raised(capsys):
    with pytest.raises(OSError, match="a.h5: not written: .*No space left on device"):
        with h5_errors_raised("a.h5"):
            Unwritten()
    assert capsys.readouterr().err == ""


def test_the_first_error_stays_and_what_it_holds_is_deleted_silently(capsys):
    def save():
        held = Unwritten()
        raise OSError(errno.ENOSPC, f"No space left on device, {type(held)}")

    with pytest.raises(OSError, match="^.Errno 28. No space left on device"):
        with h5_errors_raised("a.h5"):
            save()
    assert capsys.readouterr().err == ""


def test_a_model_is_not_written(tmp_path, monkeypatch):
    model = kbert.BertEncoder(tiny_config())
    monkeypatch.setattr(type(model), "save_weights", lambda self, path: Unwritten() and None)
    with pytest.raises(FullDisk, match="model: not written, no space left on device"):
        kbert.save_pretrained(model, tmp_path / "model", tokenizer=tiny_tokenizer())
    assert not list(tmp_path.iterdir())
