"""A run that is killed and started again ends where an uninterrupted one ends, bit for bit."""

import json
import os
import shutil
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny_pretraining as tiny
from helpers.at_step import AtStep, Killed
from helpers.compare import assert_arrays_equal
from helpers.forked_python import ForkedPython
from helpers.paths import ROOT
from helpers.reused import reused
from helpers.tiny_bert import randomise, tiny_config

import kbert
from kbert.training import DevScoring, ExactResume, loop
from kbert.training.exact_resume import restore_checkpoint, save_checkpoint
from kbert.training.logs import updates_done
from kbert.training.signals import Interrupted

STEPS = 3


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    output = tmp_path_factory.mktemp("uninterrupted")
    history, weights = tiny.run(output)
    return output, history, weights


def start_process(output, *arguments):
    program = ROOT / "tests" / "helpers" / "tiny_pretraining.py"
    return ForkedPython(program, output, *arguments).finish()


def without_times(history):
    timed = ("seconds", "steps_per_second", "tokens_per_second")
    return [{name: value for name, value in record.items() if name not in timed} for record in history]


def test_killed_and_started_again_is_bit_identical(tmp_path, uninterrupted, caplog):
    """Killed in one process, and started again in this one, which has traced the steps already."""
    _, history, weights = uninterrupted
    killed = start_process(tmp_path, "6")  # in the middle of the second window
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert os.listdir(tmp_path / "checkpoints") == ["step-0000000004"]
    assert_arrays_equal(tiny.run(tmp_path)[1], weights)
    assert "resuming from the checkpoint of step 4." in caplog.text
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert without_times(lines) == without_times(history)


@pytest.mark.slow  # test_killed_and_started_again_is_bit_identical
def test_a_new_process_that_goes_on_is_bit_identical(tmp_path, uninterrupted):
    assert start_process(tmp_path, "6").returncode == -signal.SIGKILL
    again = start_process(tmp_path)
    assert again.returncode == 0, again.stderr
    assert "resuming from the checkpoint of step 4." in again.stdout
    with np.load(tmp_path / "weights.npz") as arrays:
        assert_arrays_equal(list(arrays.values()), uninterrupted[2])


def test_dropout_is_on_and_its_state_is_part_of_the_run(uninterrupted):
    _, _, weights = uninterrupted
    states = [value for value in weights if value.dtype.kind in "iu"]  # of dropout's generators: key, count of draws
    assert len(states) > 2 and all(state[1] == tiny.STEPS for state in states)


def test_history_and_logs(uninterrupted):
    output, history, _ = uninterrupted
    assert [record["step"] for record in history] == [4, 8, 11]
    for record in history:
        assert record["loss"] == pytest.approx(record["mlm_loss"] + record["nsp_loss"], rel=1e-5)
        assert np.log(record["mlm_perplexity"]) == pytest.approx(record["mlm_cross_entropy"], rel=1e-5)
        assert {"mlm_accuracy", "nsp_accuracy", "gradient_norm", "tokens_per_second"} <= set(record)
    np.testing.assert_allclose([r["learning_rate"] for r in history], 0.01 * (1 - np.array([3, 7, 10]) / 30), rtol=1e-6)
    assert history[-1]["loss"] < history[0]["loss"]
    assert [json.loads(line) for line in (output / "history.jsonl").read_text().splitlines()] == history
    assert sorted(os.listdir(output / "checkpoints")) == ["step-0000000008", "step-0000000011"]  # the last two


def test_a_finished_run_does_nothing(uninterrupted, caplog):
    output, history, _ = uninterrupted

    def no_dataset(start_step):
        raise AssertionError("there is nothing to train")

    assert tiny.train(tiny.model(), no_dataset, tiny.STEPS, output, window=tiny.WINDOW) == history
    assert "all 11 steps are done" in caplog.text


@pytest.mark.parametrize("damage", ["truncated", "flipped", "manifest", "another step", "another shape"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, uninterrupted, damage, caplog):
    output, history, weights = uninterrupted
    shutil.copytree(output, tmp_path, dirs_exist_ok=True)
    newest = tmp_path / "checkpoints" / "step-0000000011"
    data = next(newest.glob("values.data*"))
    if damage == "truncated":
        os.truncate(data, data.stat().st_size // 2)
    elif damage == "flipped":
        content = bytearray(data.read_bytes())
        content[len(content) // 3] ^= 1
        data.write_bytes(content)
    elif damage == "manifest":
        (newest / "manifest.json").write_text("{")
    else:  # still JSON
        manifest = (newest / "manifest.json").read_text()
        old, new = ('"step": 11', '"step": 10') if damage == "another step" else ("12,", "13,")
        assert old in manifest
        (newest / "manifest.json").write_text(manifest.replace(old, new, 1))
    caplog.clear()
    again, found = tiny.run(tmp_path)
    out = caplog.text
    assert "is damaged" in out and "resuming from the checkpoint of step 8" in out
    assert_arrays_equal(found, weights)
    assert without_times(again) == without_times(history)


def test_damaged_checkpoints_do_not_take_the_place_of_whole_ones(tmp_path):
    """A run whose last checkpoints are damaged starts before them: what it saves until then must stay."""
    for step in (8, 11):
        damaged = tmp_path / "checkpoints" / f"step-{step:010d}"
        damaged.mkdir(parents=True)
        (damaged / "manifest.json").write_text("{")
    model = tiny.model()
    resume = ExactResume(tmp_path, model)
    resume.set_model(model)
    assert resume.step == 0
    for step in (4, 6, 8, 11):
        resume.step = step
        resume.on_train_end()
        assert ExactResume(tmp_path, model).step == step
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["step-0000000008", "step-0000000011"]


@pytest.mark.parametrize("name", ["run[a]", "back\\slash"])
def test_a_directory_that_tensorflow_reads_as_a_pattern(tmp_path, name):
    """Its checkpoints were taken for damaged ones, and the run started anew."""
    model = tiny.model()
    model.optimizer.build(model.trainable_variables)
    save_checkpoint(tmp_path / name, model, 4)
    assert restore_checkpoint(tmp_path / name, model) == (4, [])


def test_another_models_checkpoint_is_an_error(uninterrupted):
    output, _, _ = uninterrupted
    with pytest.raises(ValueError, match=r"another model.*Received: .*\[37, 12\].*another directory"):
        tiny.train(tiny.compiled_model(hidden_dim=15), tiny.make_dataset, 20, output)
    with pytest.raises(ValueError, match="another model or optimizer"):
        tiny.train(tiny.compiled_model(optimizer=keras.optimizers.SGD(0.1)), tiny.make_dataset, 20, output)


def test_a_dataset_that_ends_too_early(tmp_path):
    model = tiny.model()
    with pytest.raises(ValueError, match="at least 8 batches.*Received: 5"):
        tiny.train(model, lambda start_step: tiny.make_dataset(start_step).take(5), 8, tmp_path, window=4)
    unknown = lambda start_step: tiny.make_dataset(start_step).take(5).filter(lambda *batch: True)  # noqa: E731
    with pytest.raises(ValueError, match="ended after step 5"):
        tiny.train(model, unknown, 8, tmp_path / "unknown", window=4)
    assert os.listdir(tmp_path / "unknown" / "checkpoints") == ["step-0000000004"]


def test_validation_and_intervals(tmp_path):
    model = tiny.model()
    scoring = [tiny.held_out(model, tiny.make_dataset(500), 2, due=[0, 5, 9])]
    history = tiny.train(model, tiny.make_dataset, 9, tmp_path, window=2, every=3, scoring=scoring, keep_every=3)
    assert [r["step"] for r in history] == [0, 2, 3, 4, 5, 6, 8, 9]  # none divides another
    assert [r["step"] for r in history if "val_loss" in r] == [0, 5, 9] and "loss" not in history[0]
    assert {"val_mlm_accuracy", "val_mlm_cross_entropy", "val_nsp_accuracy"} <= set(history[-1])
    assert sorted(os.listdir(tmp_path / "checkpoints")) == [f"step-000000000{step}" for step in (3, 6, 9)]


@pytest.mark.parametrize("arguments", [{"window": 0}, {"steps": 0}])
def test_bad_arguments(tmp_path, arguments):
    arguments = {"steps": 4, "window": 2} | arguments
    with pytest.raises(ValueError, match="at least 1"):
        tiny.train(tiny.model(), tiny.make_dataset, output=tmp_path, **arguments)
    with pytest.raises(ValueError, match="compiled"):
        tiny.train(keras.Sequential([keras.layers.Dense(1)]), tf.data.Dataset.range, 1, tmp_path)


def make_classifier_dataset(start_step):
    """Batch n is a function of n."""

    def batch(step):
        ids = tf.random.stateless_uniform([4, 6], [7, tf.cast(step, tf.int32)], 5, 20, tf.int32)
        inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
        return inputs, {"logits": ids[:, 0] % 2}

    return tf.data.Dataset.range(start_step, 1000).map(batch)


def make_classifier():
    keras.utils.set_random_seed(3)
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1, hidden_dropout=0.1), num_labels=2))
    model.compile(kbert.AdamW(1e-3))
    return model


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])  # whose files of values are NumPy's
def test_checkpoints_of_bfloat16(tmp_path, monkeypatch, backend):
    model = kbert.BertClassifier(tiny_config(num_layers=1), num_labels=2, dtype="bfloat16")
    model.compile(kbert.AdamW(1e-3))
    model.optimizer.build(model.trainable_variables)
    weights = model.get_weights()
    with monkeypatch.context() as patch:
        patch.setattr(keras.backend, "backend", lambda: backend)
        save_checkpoint(tmp_path, model, 3)
    model.set_weights([0 * value for value in weights])
    assert restore_checkpoint(tmp_path, model) == (3, [])
    assert_arrays_equal(model.get_weights(), weights)


class KilledAt(keras.callbacks.Callback):
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.epoch:
            raise InterruptedError


def train(directory, *callbacks):
    model = reused(make_classifier)  # its steps are traced once
    resume = ExactResume(directory, model, STEPS)
    dataset = make_classifier_dataset(resume.step)
    model.fit(
        dataset,
        steps_per_epoch=STEPS,
        epochs=4,
        initial_epoch=resume.epoch,
        callbacks=[resume, *callbacks],
        verbose=0,
    )
    return model, resume


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The directory of an uninterrupted fit, the steps of its checkpoints and of its optimizer, and its weights."""
    directory = tmp_path_factory.mktemp("whole")
    model, resume = train(directory)
    return directory, (resume.step, int(model.optimizer.iterations.numpy())), model.get_weights()


def test_a_killed_fit_goes_on_to_the_same_weights(tmp_path, whole):
    assert whole[1] == (12, 12)
    with pytest.raises(InterruptedError):
        train(tmp_path / "killed", KilledAt(2))
    again, resume = train(tmp_path / "killed")
    assert resume.step == 12
    for one, other in zip(whole[2], again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    done = ExactResume(tmp_path / "killed", make_classifier(), STEPS)
    assert (done.step, done.epoch) == (12, 4)
    assert len(list((tmp_path / "killed/checkpoints").iterdir())) == 2


@pytest.mark.parametrize("step, sends", [(5, False), (8, False), (10, False), (5, True), (8, True), (10, True)])
def test_a_fit_resumes_in_the_middle_of_an_epoch(tmp_path, step, sends):
    """Epochs have 4 steps, checkpoints are every 3; the scores end the training after step 12."""

    def fit(output, *callbacks):
        model = reused(make_classifier)
        scores = {4: 0.5, 8: 0.4, 12: 0.3}
        scoring = DevScoring(lambda: {"accuracy": scores[updates_done(model.optimizer)]}, "accuracy", patience=2)
        resume = ExactResume(output, model, 4, every=3, callbacks=[scoring])
        model.fit(
            make_classifier_dataset(resume.step),
            steps_per_epoch=4,
            epochs=5,
            initial_epoch=resume.epoch,
            callbacks=[scoring, *callbacks, resume],
            verbose=0,
        )
        scoring.restore_kept(model)
        return scoring.records, model.get_weights(), resume.step

    def end(model):
        if not sends:
            raise Killed
        os.kill(os.getpid(), signal.SIGTERM)

    records, weights, last = fit(tmp_path / "whole")
    assert last == 12 and [record["step"] for record in records] == [4, 8, 12]
    with pytest.raises(Interrupted if sends else Killed):
        fit(tmp_path / "run", AtStep(step, end))
    saved = [int(path.name.removeprefix("step-")) for path in (tmp_path / "run/checkpoints").iterdir()]
    assert max(saved) == (step if sends else 3 * ((step - 1) // 3))
    again, found, last = fit(tmp_path / "run")
    assert again == records and last == 12
    assert_arrays_equal(found, weights)


def test_other_steps_or_another_place_are_an_error(tmp_path, whole):
    for steps in (None, 5):
        model = make_classifier()
        resume = ExactResume(whole[0], model, steps)
        with pytest.raises(ValueError, match=f"must be that of `fit`. Received: {steps}, and 3 in"):
            model.fit(make_classifier_dataset(12), steps_per_epoch=STEPS, callbacks=[resume], verbose=0)
    model = make_classifier()
    with pytest.raises(ValueError, match="is for `fit`; leave it out for `train`. Received: 3"):
        loop.train(model, make_classifier_dataset, 12, callbacks=[ExactResume(tmp_path, model, STEPS)])
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="ExactResume: `output`"):
        ExactResume(tmp_path / "file", make_classifier(), STEPS)


def test_with_settings_it_goes_on_with_the_same_settings_and_inputs_alone(tmp_path):
    def resume(steps=3, output="run"):
        files = {"corpus": sorted(tmp_path.glob("*.txt"))}
        settings = {"corpus": "*.txt", "steps": steps, "output": output}
        return ExactResume(tmp_path / output, reused(make_classifier), STEPS, settings=settings, inputs=files)

    (tmp_path / "a.txt").write_text("a")
    for _ in range(2):
        assert resume().step == 0
    assert json.loads((tmp_path / "run/settings.json").read_text()) == {"corpus": "*.txt", "steps": 3}
    with pytest.raises(FileExistsError, match=r"a run with other settings \(steps: 3 there, 4 now\)"):
        resume(4)
    (tmp_path / "b.txt").write_text("b")
    with pytest.raises(ValueError, match=r"b.txt \(--corpus\) is new"):
        resume()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/letter.txt").touch()
    with pytest.raises(FileExistsError, match="holds other files than a run's.*letter.txt"):
        resume(output="notes")
