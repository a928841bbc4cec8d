"""kbert.finetune: what it takes, keeps, resumes and leaves alone."""

import dataclasses

import keras
import numpy as np
import pytest
from helpers.at_step import AtStep, Killed, killed_at
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json
from helpers.tiny_finetuning import DEV, NO_DEV, QUICK, ROWS, SHORT, TASK, calling, prepare, same

import kbert
from kbert.tasks.task import Evaluation
from kbert.training.hardware import Hardware


@pytest.fixture(autouse=True, scope="module")
def op_by_op():
    """Traced runs: tests/commands."""
    with run_eagerly():
        yield


@dataclasses.dataclass(frozen=True)
class Scripted(kbert.tasks.Classification):
    """Scores as they are written down, one an evaluation; a step of training tells which comes next."""

    script: tuple[float, ...] = (0.5, 0.9, 0.7, 0.8)

    def evaluate(self, pipeline, examples, **options):
        done = int(pipeline.model.optimizer.iterations.numpy())
        return Evaluation({"accuracy": self.script[done // 2 - 1]}, None)


def weights(model):
    return [variable.numpy() for variable in model.weights]


@pytest.fixture(scope="module")
def trained(init, tmp_path_factory):
    """A run, and the weights that its model had after step 4."""
    at_best = []
    at_step = AtStep(4, lambda model: at_best.extend(weights(model)))
    path = tmp_path_factory.mktemp("runs") / "run"
    return kbert.finetune(init, Scripted(), ROWS, DEV, path, **QUICK | calling([at_step])), at_best


@pytest.fixture
def run(trained):
    return trained[0]


def test_the_best_weights_are_kept(trained):
    run, at_best = trained
    assert read_json(run.path / "metrics.json") == run.metrics
    assert set(run.metrics["dev"]) == {"accuracy"} and "accuracy" in run.metrics["constant_answer"]
    scores = [(2, 0.5), (4, 0.9), (6, 0.7), (8, 0.8)]
    assert [(one["step"], one["accuracy"]) for one in run.metrics["evaluations"]] == scores
    assert [(r["step"], r["val_accuracy"]) for r in run.history if "val_accuracy" in r] == scores
    assert run.metrics["kept_step"] == 4
    assert same(at_best, run.pipeline.model.get_weights())
    assert same(at_best, kbert.load_pretrained(run.path).get_weights())


@pytest.mark.parametrize("step", [pytest.param(5, marks=pytest.mark.slow), 7])
def test_a_run_killed_after_its_best_epoch_is_resumed_to_the_same_model(init, run, tmp_path, step):
    with pytest.raises(Killed):  # the last checkpoint is of step 3 or 6: before or after the best evaluation
        kbert.finetune(init, Scripted(), ROWS, DEV, tmp_path / "run", **QUICK | calling([killed_at(step)]))
    assert (tmp_path / "run" / "checkpoints" / "best-0000000004.npz").exists()
    unfinished = kbert.load_pretrained(tmp_path / "run")  # its last checkpoint
    assert unfinished.task == run.pipeline.model.task
    assert list(unfinished.pretrained.settings.task.labels) == list(run.pipeline.settings()["labels"])
    resumed = kbert.finetune(init, Scripted(), ROWS, DEV, tmp_path / "run", **QUICK)
    assert same(resumed.pipeline.model.get_weights(), run.pipeline.model.get_weights())
    for name in ("dev", "evaluations", "kept_step"):
        assert resumed.metrics[name] == run.metrics[name]
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert [record["step"] for record in resumed.history] == [record["step"] for record in run.history]


def test_patience(init, run, tmp_path, monkeypatch):
    """Without an output nothing is written, and the best weights are those that a run with one stores."""
    monkeypatch.chdir(tmp_path)
    stopped = kbert.finetune(init, Scripted(), ROWS, DEV, **QUICK, patience=1)
    assert [one["step"] for one in stopped.metrics["evaluations"]] == [2, 4, 6]
    assert stopped.metrics["kept_step"] == 4 and stopped.history[-1]["step"] == stopped.metrics["steps"] == 6
    assert stopped.path is None and not list(tmp_path.iterdir())
    assert same(stopped.pipeline.model.get_weights(), run.pipeline.model.get_weights())


def test_neither_evaluation_nor_an_output_changes_anything(init, tmp_path, caplog):
    caplog.set_level("INFO", logger="kbert")
    silent = kbert.finetune(init, TASK, ROWS, **NO_DEV)
    assert "no dev set: nothing is evaluated" in caplog.text
    caplog.clear()
    often = kbert.finetune(init, TASK, ROWS, DEV, tmp_path, **NO_DEV | {"evaluate_every": 1}, keep="last")
    assert same(silent.pipeline.model.get_weights(), often.pipeline.model.get_weights())
    assert len(often.metrics["evaluations"]) == 2 and "dev" not in silent.metrics
    lines = [record.getMessage() for record in caplog.records]
    for start in ("step 2, dev: loss", "first step done after", "step 2/2"):
        assert any(line.startswith(start) for line in lines)


def test_a_notebook_does_not_print_every_row(run):
    assert repr(TASK.examples(ROWS)) == "<LabelledText: 30 rows of rows in memory>"
    assert len(repr(run)) < 2000 and "kept_step" in repr(run) and "learning_rate" not in repr(run)


@pytest.mark.parametrize("task", [kbert.tasks.Classification, "classification"])
def test_what_is_no_task_object_is_named(init, run, task):
    message = r"expected `task` as a task object, such as kbert\.tasks.*Received: .*lassification"
    with pytest.raises(TypeError, match=f"finetune: {message}"):
        kbert.finetune(init, task, ROWS, **NO_DEV)
    with pytest.raises(TypeError, match=f"evaluate: {message}"):
        kbert.evaluate(run.pipeline, task, ROWS)


@dataclasses.dataclass(frozen=True)
class Errors(kbert.tasks.Regression):
    """The error rises from one evaluation to the next."""

    def evaluate(self, pipeline, examples, **options):
        done = int(pipeline.model.optimizer.iterations.numpy())
        return Evaluation({"mean_squared_error": 0.1 * done}, None)


@pytest.mark.filterwarnings("error:Early stopping")
def test_the_lowest_error_is_the_best_also_for_callbacks(init):
    rows = [(text, len(label)) for text, label in ROWS]
    stop = keras.callbacks.EarlyStopping("val_mean_squared_error", patience=9)
    task = Errors(metrics="mean_squared_error")
    run = kbert.finetune(init, task, rows, rows[:9], **NO_DEV | {"evaluate_every": 1} | calling(stop))
    assert [one["step"] for one in run.metrics["evaluations"]] == [1, 2] and run.metrics["kept_step"] == 1
    assert stop.monitor_op is keras.ops.less


@pytest.mark.parametrize("keep, kept", [("best", 2), ("last", 3)])
def test_a_run_that_a_callback_stopped(init, keep, kept):
    """The figures are of the steps that were done, and of the weights that the model has."""
    seen = []

    def stop(model):
        seen.extend(weights(model))
        model.stop_training = True

    run = kbert.finetune(init, TASK, ROWS, DEV, **SHORT | {"keep": keep} | calling(AtStep(3, stop)))
    assert run.metrics["steps"] == run.history[-1]["step"] == 3
    assert run.metrics["kept_step"] == kept
    assert same(seen, run.pipeline.model.get_weights()) == (kept == 3)
    assert run.metrics["dev"]["accuracy"] == kbert.evaluate(run.pipeline, TASK, DEV)["accuracy"]


class Seen(keras.callbacks.Callback):
    """What a callback is told."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def on_train_begin(self, logs=None):
        self.calls.append("begin")

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("from", epoch))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append("step")

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("to", epoch, logs["step"], logs["val_accuracy"]))

    def on_train_end(self, logs=None):
        self.calls.append("end")


def test_epochs_of_callbacks_end_with_an_evaluation(init):
    """Windows of two steps, the second and the last of which, half a window, have an evaluation."""
    plan = QUICK | {"steps": 5, "evaluate_every": 3}
    seen, stop = Seen(), keras.callbacks.EarlyStopping("val_accuracy", patience=9)
    callbacks = {"bookkeeping": {"checkpoint_every": 4, "callbacks": [seen, stop]}}
    kbert.finetune(init, Scripted(script=(0.9, 0.7)), ROWS, DEV, **plan | callbacks)
    first = ["begin", ("from", 0), *["step"] * 4, ("to", 0, 4, 0.9)]
    assert seen.calls == [*first, ("from", 1), "step", ("to", 1, 5, 0.7), "end"]
    assert (stop.best, stop.wait, stop.monitor_op) == (0.9, 1, keras.ops.greater)


def test_an_estimate_writes_nothing_and_leaves_the_model_as_it_is(init, tmp_path):
    model = kbert.load_pretrained(init, "classification", labels=["bad", "good"])
    model.compile("sgd")
    optimizer, before = model.optimizer, model.get_weights()
    options = {"optimization": {"accumulate": 2}, "machine": {"xla": "on"}}
    work = prepare(kbert.build_pipeline(model), TASK, ROWS, DEV, tmp_path / "run", **QUICK, **options)
    assert work.hardware.jit_compile
    work.hardware = dataclasses.replace(work.hardware, jit_compile=False)  # compiling takes long
    assert work.pipeline.model is model
    estimate = work.estimate()
    assert not (tmp_path / "run").exists()
    assert (estimate["examples"], estimate["windows"], estimate["steps"]) == (30, 30, 8)
    assert estimate["parameters"] == estimate["trainable_parameters"] == model.count_params()
    assert estimate["memory_bytes"] > 16 * model.count_params() and estimate["seconds"] > estimate["seconds_per_step"]
    assert same(before, model.get_weights()) and (model.optimizer, model.micro_batches) == (optimizer, 1)


def test_accumulated_batches_are_the_batch(init):
    """Without dropout, in two steps: the rows of a step are the same ones, in two parts."""
    plan = NO_DEV | {"dropout": 0.0, "warmup_proportion": 0.5, "layer_decay": 0.5, "weight_decay": 0.3}
    whole, parts = (kbert.finetune(init, TASK, ROWS, **plan, accumulate=n).pipeline.model for n in (1, 2))
    assert whole.optimizer.layer_decay == parts.optimizer.layer_decay == 0.5
    assert (whole.optimizer.weight_decay, whole.optimizer._learning_rate.warmup_steps) == (0.3, 1)
    assert parts.micro_batches == 2 and int(parts.optimizer.iterations.numpy()) == 2
    for one, other in zip(whole.get_weights(), parts.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)


@pytest.mark.parametrize("replicas, accumulate, what", [(1, 3, "3"), (2, 8, "8 times the 2 replicas")])
def test_replicas_divide_their_shares(init, monkeypatch, replicas, accumulate, what):
    hardware = Hardware(object(), "mirrored", replicas, "float32", False, ())
    monkeypatch.setattr("kbert.finetuning.run_finetuning.choose_hardware", lambda *arguments, **options: hardware)
    with pytest.raises(ValueError, match=rf"multiple of `accumulate`, {what}. Received: \[8\]"):
        kbert.finetune(init, TASK, ROWS, **NO_DEV, optimization={"accumulate": accumulate})
