"""A full disk ends a run with one sentence; with room made, the same command ends as if nothing had been."""

import errno
import os
import subprocess

import pytest
import tensorflow as tf
from helpers import tiny_pretraining as tiny
from helpers.compare import assert_arrays_equal
from helpers.slow_but import slow_but
from helpers.stored_models import make_model, save
from helpers.tiny_corpus import make_documents, make_tokenizer

from kbert.corpus.write_records import write_records
from kbert.files import WriteFault, explain_full_disk
from kbert.inspection.board.tensor_board import TensorBoard
from kbert.inspection.examples.masked_examples import MaskedExamples
from kbert.training.exact_resume import save_checkpoint
from kbert.training.run_directory import open_run
from kbert.training.run_log import RunLog


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return tiny.run(tmp_path_factory.mktemp("whole"))[1]


def _full(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", slow_but((1, 12), (1, 5, 12)))
def test_wherever_the_disk_is_full_the_run_resumes_to_the_same_weights(tmp_path, monkeypatch, weights, call):
    """Each flush to the disk fails in turn: of history's lines, checkpoints' values, manifests and directories."""
    calls, fsync = [], os.fsync

    def flush(handle):
        calls.append(handle)
        return _full() if len(calls) > call else fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", flush)
        with pytest.raises(WriteFault, match=r"(history.jsonl|step-\d+): not written, no space left") as error:
            tiny.run(tmp_path)
    assert "\n" not in str(error.value) and not list(tmp_path.rglob(".*"))
    assert_arrays_equal(tiny.run(tmp_path)[1], weights)


def test_a_disk_that_fails_is_one_sentence(tmp_path):
    path = tmp_path / "values"
    for error in (OSError(errno.EIO, os.strerror(errno.EIO)), tf.errors.UnknownError(None, None, "Input/output error")):
        with pytest.raises(WriteFault, match=f"^{path}: not written, input/output error of the disk.$"):
            with explain_full_disk(path):
                raise error


def test_a_checkpoint_says_how_much_room_it_needs(tmp_path, monkeypatch):
    model = tiny.model()
    model.optimizer.build(model.trainable_variables)
    size = sum(variable.numpy().nbytes for variable in [*model.variables, *model.optimizer.variables])
    monkeypatch.setattr(os, "fsync", _full)
    with pytest.raises(
        WriteFault, match=f"checkpoints/step-0000000004: not written, .*: {size / 1e6:.1f} MB are needed"
    ):
        save_checkpoint(tmp_path / "checkpoints", model, 4)
    assert not list((tmp_path / "checkpoints").iterdir())


def test_history_records_metrics_and_models_name_their_path(tmp_path, monkeypatch):
    run = open_run(tmp_path / "run", {})
    log = RunLog(tmp_path)
    monkeypatch.setattr(os, "fsync", _full)
    for name, write in {
        "history.jsonl": lambda: log.append({"step": 1}),
        "records/": lambda: write_records(make_documents(9), make_tokenizer(), tmp_path / "records"),
        "run": lambda: run.finish({}),
        "model": lambda: save(make_model("encoder"), tmp_path / "model", "huggingface"),
    }.items():
        with pytest.raises(WriteFault, match=rf"{tmp_path}/{name}.*not written, no space left on device.*free there"):
            write()
    assert not (tmp_path / "run" / "metrics.json").exists() and not (tmp_path / "model").exists()


def test_what_tensorboard_shows_names_its_path(tmp_path, monkeypatch):
    def full(path):
        raise tf.errors.ResourceExhaustedError(None, None, f"{path}/events.out; No space left on device")

    monkeypatch.setattr(tf.io, "TFRecordWriter", full)
    batch = next(iter(tiny.make_dataset()))
    for callback in (TensorBoard(tmp_path), MaskedExamples(make_tokenizer().vocabulary, batch, tmp_path)):
        callback.set_model(tiny.model())
        with pytest.raises(WriteFault, match=f"^{tmp_path}.*: not written, no space left"):
            callback.on_epoch_end(0, {"step": 1, "loss": 2.0})


def test_a_disk_that_is_really_full(tmp_path, weights):
    mount = tmp_path / "disk"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", mount], capture_output=True).returncode:
        pytest.skip("a file system of its own may be mounted by root alone")
    try:
        filler, fit = mount / "filler", dict(window=tiny.WINDOW, callbacks=[TensorBoard(mount / "logs")])
        room = os.statvfs(mount).f_bavail * os.statvfs(mount).f_frsize
        filler.write_bytes(b"x" * (room - (32 << 10)))  # logs and history fit, a checkpoint does not
        with pytest.raises(
            WriteFault, match=f"{mount}/checkpoints/step-0000000004: not written, .*needed.*free"
        ) as error:
            tiny.train(tiny.model(), tiny.make_dataset, tiny.STEPS, mount, **fit)
        assert "\n" not in str(error.value) and not list((mount / "checkpoints").iterdir())
        filler.unlink()
        model = tiny.model()
        tiny.train(model, tiny.make_dataset, tiny.STEPS, mount, **fit)
        assert_arrays_equal([variable.numpy() for variable in model.variables], weights)
    finally:
        subprocess.run(["umount", mount], check=True)
