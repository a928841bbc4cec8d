"""HDF5: only what Keras writes is read, and only out of the file itself."""

import errno
import sys

import h5py
import numpy as np
import pytest
from helpers.fuzz import peak_memory
from helpers.stored_models import make_model, save
from helpers.tiny_bert import tiny_config, tiny_tokenizer

import kbert
from kbert.files import FullDisk
from kbert.weights.files.h5_file import check_h5, h5_errors_raised
from kbert.weights.formats import kbert as kbert_format
from kbert.weights.source import open_checkpoint

PLACE = "layers/encoder_block/feed_forward/intermediate/vars/0"
SHAPE = (12, 20)


@pytest.fixture
def weights(tmp_path):
    save(make_model("encoder"), tmp_path / "it", "kbert")
    return tmp_path / "it/model.weights.h5"


@pytest.fixture
def secret(tmp_path):
    """Another file of the reader's, whose content must not become weights."""
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["values"] = np.ones(SHAPE, "float32")
    (tmp_path / "secret.raw").write_bytes(np.ones(SHAPE, "float32").tobytes())
    return tmp_path / "secret.h5"


def virtual(file, secret):
    layout = h5py.VirtualLayout(SHAPE, "float32")
    layout[:] = h5py.VirtualSource(str(secret), "values", SHAPE)
    file.create_virtual_dataset(PLACE, layout)


def external(file, secret):
    raw = str(secret.with_suffix(".raw"))
    file.create_dataset(PLACE, SHAPE, "float32", external=[(raw, 0, h5py.h5f.UNLIMITED)])


def external_link(file, secret):
    file[PLACE] = h5py.ExternalLink(str(secret), "/values")


def soft_link(file, secret):
    file["elsewhere"] = np.ones(SHAPE, "float32")
    file[PLACE] = h5py.SoftLink("/elsewhere")


def second_name(file, secret):
    file[PLACE] = file["layers/encoder_block_1/feed_forward/intermediate/vars/0"]


def compressed(file, secret):
    file.create_dataset(PLACE, data=np.ones(SHAPE, "float32"), compression="gzip")


def bomb(file, secret):
    file.create_dataset(PLACE, (2**20, 2**18), "float32", chunks=(2**12, 2**12), compression="gzip", fillvalue=1)


def unwritten(file, secret):
    file.create_dataset(PLACE, (2**20, 2**18), "float32")


def strings(file, secret):
    file[PLACE] = np.array([b"a", b"b"])


def cycle(file, secret):
    file[PLACE] = np.ones(SHAPE, "float32")
    file["layers/encoder_block/attention/again"] = file["layers"]


@pytest.mark.parametrize(
    "change,message",
    [
        (virtual, "in another file"),
        (external, "in another file"),
        (external_link, "is a link .ExternalLink"),
        (soft_link, "is a link .SoftLink"),
        (second_name, "two groups"),
        (compressed, "chunked or compressed"),
        (bomb, "chunked or compressed"),
        (unwritten, "takes 1099511627776 bytes. Received: 0"),
        (strings, "must hold numbers"),
        (cycle, "two groups"),
    ],
)
def test_what_keras_never_writes_is_refused(weights, secret, change, message, monkeypatch):
    with h5py.File(weights, "a") as file:
        del file[PLACE]
        change(file, secret)
    before = peak_memory(begin=True)
    with pytest.raises(ValueError, match=f"model.weights.h5.*{message}"):
        check_h5(weights)
    monkeypatch.setattr(kbert_format, "_check_hashes", lambda path: None)  # whoever made the file made the hashes
    with pytest.raises(ValueError, match=f"model.weights.h5.*{message}"):
        open_checkpoint(weights.parent)
    assert peak_memory() - before < 50


def test_a_heap_in_which_the_library_would_never_end(weights):
    content = bytearray(weights.read_bytes())
    heap = content.index(b"GCOL")
    first = int.from_bytes(content[heap + 24 : heap + 32], "little")
    block = heap + 32 + (first + 7) // 8 * 8
    content[block : block + 16] = bytes(16)
    weights.write_bytes(content)
    with pytest.raises(ValueError, match="model.weights.h5 is corrupted: a block of 0 bytes"):
        check_h5(weights)


@pytest.mark.parametrize("field,value", [(40, b"\xff" * 4), (44, b"\x7f\x08")])
def test_a_name_of_four_gigabytes_or_kept_elsewhere(weights, field, value):
    content = bytearray(weights.read_bytes())
    place = content.index(b"name" + bytes(4)) + field
    content[place : place + len(value)] = value
    weights.write_bytes(content)
    with pytest.raises(ValueError, match="model.weights.h5 is corrupted: a name of"):
        check_h5(weights)


def test_weights_that_are_no_numbers(weights, monkeypatch):
    with h5py.File(weights, "a") as file:
        file[PLACE][0, 0] = np.inf
    monkeypatch.setattr(kbert_format, "_check_hashes", lambda path: None)
    stored = open_checkpoint(weights.parent)
    with pytest.raises(ValueError, match="encoder_block_0/feed_forward/intermediate/kernel' holds.*not finite"):
        stored.load_into(stored.description.build())


# What h5py cannot write is an error, and nothing else is printed.


class Unwritten:
    """An object that fails as h5py's do when the disk is full."""

    def __del__(self):
        raise RuntimeError("Can't decrement id ref count (file write failed: 'No space left on device')")


def test_what_is_only_printed_is_raised(capsys):
    with pytest.raises(OSError, match="a.h5: not written: .*No space left on device"):
        with h5_errors_raised("a.h5"):
            Unwritten()
    assert capsys.readouterr().err == ""


def test_a_destructor_of_something_else_fails_nothing(monkeypatch):
    class Noisy:
        def __del__(self):
            raise RuntimeError("another library")

    shown = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: shown.append(str(unraisable.exc_value)))
    with h5_errors_raised("a.h5"):
        Noisy()
    assert shown == ["another library"]


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
