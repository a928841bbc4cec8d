"""A pre-training of two phases with other lengths and batch sizes: the same steps by hand; it resumes exactly."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers.at_step import Killed, killed_at
from helpers.compare import assert_arrays_equal
from helpers.run_eagerly import run_eagerly
from helpers.tiny_corpus import make_pretrainer, make_tokenizer

import kbert
from kbert.files import read_json, write_json
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.pretraining.dataset import pretraining_dataset
from kbert.training.dry_run import mean_seconds_per_step
from kbert.training.made_by import identify_inputs
from kbert.weights.step_checkpoint import ARRAYS, read_step_checkpoint
from kbert.weights.step_paths import find_step_checkpoint

pytestmark = pytest.mark.usefixtures("same_data")
_RUN = pytest.mark.slow  # half a minute; phases: training/test_stages.py; a run: test_pretrain.py, test_given_models.py

PLAN = {
    "phases": [(16, 0.75), (24, 0.25, 3)],
    "batch_size": 4,
    "learning_rate": 0.01,
    "evaluation_batches": 1,
    "log_every": 1,
    "checkpoint_every": 2,
    "packed": True,
}


def assert_same(one, other):
    assert_arrays_equal(one.get_weights(), other.get_weights())


def run_by_steps(records, output):
    return kbert.pretrain(
        records, init=make_pretrainer(24), steps=4, warmup_steps=1, keep_every=2, output=output, **PLAN
    )


@pytest.fixture(scope="module")
def by_steps(records, tmp_path_factory):
    with run_eagerly():
        return run_by_steps(records, tmp_path_factory.mktemp("by_steps") / "run")


def rows_by_hand(records, number, sequence_length, max_predictions, seed):
    options = {"sequence_length": sequence_length, "max_predictions": max_predictions, "seed": seed}
    dataset = pretraining_dataset(records, make_tokenizer(), batch_size=number, packed=True, num_parts=4, **options)
    return tf.data.Dataset.from_tensor_slices(next(iter(dataset)))


def model_by_hand(records):
    """The model of `run_by_steps`, trained by `fit`, and its scores before that."""
    model = make_pretrainer(24)
    view = model.with_parts(4)  # for packed rows of up to 24 tokens
    view.compile(AdamW(WarmupLinearDecay(0.01, 1, 4)))
    rows = {"batch_size": 3, "sequence_length": 24, "max_predictions": 4, "packed": True, "num_parts": 4}
    dataset = pretraining_dataset(records, make_tokenizer(), seed=1, evaluation=True, batches=1, **rows)
    before = view.evaluate(dataset, return_dict=True, verbose=0)
    short, long = (rows_by_hand(records, *which) for which in ((12, 16, 3, 0), (3, 24, 4, 1)))
    for rows, batch_size in ((short, 4), (long, 3)):  # three steps, and one
        view.make_train_function(force=True)
        view.fit(rows.batch(batch_size, drop_remainder=True), verbose=0, shuffle=False)
    return model, before


@_RUN
@pytest.mark.usefixtures("eagerly")
def test_phases_are_the_same_steps_by_hand(records, by_steps):
    model, before = model_by_hand(records)
    assert_same(model, by_steps.model)
    assert by_steps.metrics["before"]["loss"] == pytest.approx(before["loss"], rel=1e-5)  # on the rows of the end


@pytest.mark.slow  # op by op: above
def test_traced_phases_are_the_same_steps_by_hand(records, tmp_path):
    assert_same(model_by_hand(records)[0], run_by_steps(records, tmp_path / "run").model)


@_RUN
def test_what_a_run_from_a_model_says(by_steps):
    steps = [record["step"] for record in by_steps.history]
    assert steps == [0, 1, 2, 3, 4]
    assert by_steps.metrics["before"].keys() <= by_steps.metrics.keys() and "loss" in by_steps.metrics["before"]
    assert [len(by_steps.metrics["data"]), by_steps.settings.sequence_length] == [2, 24]
    assert [phase[2] for phase in read_json(by_steps.path / "settings.json")["phases"]] == [4, 3]


@_RUN
def test_a_packed_run_is_one_of_a_plain_model(by_steps):
    model = by_steps.model
    assert read_json(by_steps.path / "settings.json")["packed"] is True
    assert all(data["parts_per_sequence"] >= 1 and data["padding_fraction"] < 0.2 for data in by_steps.metrics["data"])
    assert sorted(model.input) == ["mask_positions", "padding_mask", "segment_ids", "token_ids"]
    assert_same(kbert.load_pretrained(by_steps.path), model)
    with run_eagerly():
        assert by_steps.pipeline.predict(["a [MASK] c"], verbose=0)["tokens"].shape[0] == 1
    rng = np.random.default_rng(0)
    inputs = {"token_ids": rng.integers(5, 50, (2, 24)), "segment_ids": np.zeros((2, 24), int)}
    inputs |= {"padding_mask": np.ones((2, 24), bool), "mask_positions": np.array([[1, 2], [3, 4]])}
    labels = {"mlm_logits": np.array([[7, 8], [9, 9]]), "nsp_logits": np.array([0, 1])}
    with run_eagerly():
        assert model.test_on_batch(inputs, labels, return_dict=True)["loss"] > 0
    assert int(model.optimizer.iterations.numpy()) == 4  # the one of the packed rows


@_RUN
def test_it_cannot_be_extended_as_its_phases_would_shift(records, by_steps):
    with pytest.raises(FileExistsError, match="a finished run with other settings .*steps: 4 there, 5 now"):
        kbert.pretrain(
            records, init=make_pretrainer(24), steps=5, warmup_steps=1, keep_every=2, output=by_steps.path, **PLAN
        )


@_RUN
def test_milestones_stay_and_are_models(by_steps, tmp_path):
    assert sorted(path.name for path in (by_steps.path / "checkpoints").iterdir()) == [
        "description",
        "step-0000000002",
        "step-0000000004",
    ]
    last = kbert.load_pretrained(f"{by_steps.path}@4")
    assert last.task == "pretraining" and last.pretrained.tokenizer.vocabulary == make_tokenizer().vocabulary
    assert_same(last.encoder, by_steps.model.encoder)
    kbert.save_pretrained(last, tmp_path / "saved")
    saved = read_json(tmp_path / "saved/kbert.json")["made_by"]
    assert (saved["recipe"], saved["step"], saved["settings"]["steps"]) == ("kbert.pretrain", 4, 4)
    middle = kbert.load_pretrained(f"{by_steps.path}@2", task="classification", num_labels=3, hidden_dropout=0.0)
    assert not np.array_equal(middle.encoder.get_weights()[0], last.encoder.get_weights()[0])
    half = kbert.load_pretrained(f"{by_steps.path}@4", dtype="bfloat16").encoder
    assert half.weights[0].dtype == "bfloat16"
    np.testing.assert_allclose(half.get_weights()[0].astype("float32"), last.encoder.get_weights()[0], rtol=1e-2)
    with pytest.raises(FileNotFoundError, match="no checkpoint of step 3. It has: 2, 4"):
        kbert.load_pretrained(f"{by_steps.path}@3")


def test_what_a_run_means_while_it_is_extended(tmp_path):
    """Its last checkpoint, not the model of its first end; once it is finished its model."""
    for name in ("model", "checkpoints/description", "checkpoints/step-0000000004", "checkpoints/step-0000000006"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "settings.json").touch()
    assert find_step_checkpoint(tmp_path) == tmp_path / "checkpoints/step-0000000006"
    (tmp_path / "metrics.json").touch()
    assert find_step_checkpoint(tmp_path) is None


@_RUN
def test_a_checkpoint_of_jax_is_a_model_on_tensorflow(by_steps, tmp_path):
    """There the seeds of dropout have another type, and the values are NumPy's."""
    there, here = by_steps.path / "checkpoints", tmp_path / "checkpoints"
    shutil.copytree(there / "description", here / "description")
    manifest, values = read_step_checkpoint(there / "step-0000000004")
    values = [value.astype("uint32") if value.dtype == "int64" else value for value in values]
    for variable, value in zip(manifest["variables"], values, strict=True):
        variable["dtype"] = value.dtype.name
    (here / "step-0000000004").mkdir()
    np.savez(here / "step-0000000004" / ARRAYS, *values)
    write_json(here / "step-0000000004" / "manifest.json", manifest)
    assert_same(kbert.load_pretrained(f"{tmp_path}@4").encoder, by_steps.model.encoder)
    files = identify_inputs({"init": find_step_checkpoint(f"{tmp_path}@4")})["init"]
    assert sorted(name.rpartition("/")[2] for name in files) == ["manifest.json", ARRAYS]


@_RUN
@pytest.mark.usefixtures("eagerly")
def test_a_run_of_hours_is_that_of_its_steps_and_resumes(records, by_steps, tmp_path, monkeypatch):
    """The dry run that finds the steps leaves weights, dropout and data as they are; a resumed run has none."""

    def run(seconds, *callbacks, **given):
        def measure(*arguments):
            mean_seconds_per_step(*arguments)  # as it does, with its steps
            return seconds

        monkeypatch.setattr("kbert.training.dry_run.mean_seconds_per_step", measure)
        options = {"hours": 4 / 3600, "warmup_steps": 0.25, "callbacks": callbacks, "output": tmp_path}
        return kbert.pretrain(records, init=make_pretrainer(24), **options | PLAN | given)

    with pytest.raises(Killed):
        run(1.0, killed_at(3))
    with pytest.raises(Killed):
        run(1.0, killed_at(3), steps=4)  # as settings.json is given with --config
    unfinished = kbert.load_pretrained(tmp_path)  # its last checkpoint, of step 2
    files = identify_inputs({"init": find_step_checkpoint(tmp_path)})["init"]
    assert len(files) == 3 and all("step-0000000002" in name for name in files)
    resumed = run(0.1)  # on a faster machine
    assert resumed.metrics["steps"] == 4 and [record["step"] for record in resumed.history] == [0, 1, 2, 3, 4]
    assert_same(resumed.model, by_steps.model)
    assert read_json(tmp_path / "settings.json")["steps"] == 4
    assert np.abs(unfinished.encoder.get_weights()[0] - resumed.model.encoder.get_weights()[0]).max() > 1e-3
