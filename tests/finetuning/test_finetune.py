"""kbert.finetune: what it takes, keeps, resumes and leaves alone."""

import dataclasses

import keras
import numpy as np
import pytest
from helpers.at_step import AtStep, Killed, killed_at
from helpers.counting import Counting
from helpers.random_numbers import assert_not_reset
from helpers.recorded import recorded_names
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json
from helpers.slow_but import slow_but
from helpers.tiny_finetuning import DEV, NO_DEV, QUICK, ROWS, SHORT, TASK, same

import kbert
from kbert.options import Machine, Optimization
from kbert.tasks.task import Evaluation
from kbert.training.hardware import Hardware


@pytest.fixture(autouse=True, scope="module")
def op_by_op():
    """Tracing the graph of a step takes longer than the steps of these runs."""
    with run_eagerly():
        yield


@dataclasses.dataclass(frozen=True)
class Scripted(kbert.tasks.Classification):
    """Scores as they are written down, one an evaluation; a step of training tells which comes next."""

    script: tuple[float, ...] = (0.5, 0.9, 0.7, 0.8)
    every: int = 2

    def evaluate(self, pipeline, examples, **options):
        done = int(pipeline.model.optimizer.iterations.numpy())
        return Evaluation({"accuracy": self.script[done // self.every - 1]}, None)


PLAN = QUICK | {"steps": 8, "evaluate_every": 2, "checkpoint_every": 3}


def with_callback(callback):
    return PLAN | {"callbacks": [callback]}


@pytest.fixture(scope="module")
def run(init, tmp_path_factory):
    return kbert.finetune(init, Scripted(), ROWS, DEV, tmp_path_factory.mktemp("runs") / "run", **PLAN)


def test_metrics_are_those_of_the_file(run):
    assert read_json(run.path / "metrics.json") == run.metrics
    assert (
        set(run.metrics["dev"]) == {"accuracy"} and run.metrics["constant_answer"].keys() >= run.metrics["dev"].keys()
    )


def test_settings_are_the_parameters_that_define_a_run(run):
    expected = recorded_names(kbert.finetune)
    settings = read_json(run.path / "settings.json")
    assert set(settings) == expected and {"learning_rate", "weight_decay", "teacher", "strategy"} <= expected
    assert not {"output", "checkpoint_every", "callbacks", "overwrite", "dry_run"} & expected


def test_the_best_weights_are_kept_in_bfloat16(init, tmp_path):
    model = kbert.load_pretrained(init, task="encoder", dtype="bfloat16")
    run = kbert.finetune(model, Scripted(), ROWS, DEV, tmp_path / "run", **PLAN)
    assert run.metrics["kept_step"] == 4 and (run.path / "model").is_dir()


def test_the_best_weights_are_kept(init, run):
    assert run.metrics["kept_step"] == 4
    assert [(one["step"], one["accuracy"]) for one in run.metrics["evaluations"]] == [
        (2, 0.5),
        (4, 0.9),
        (6, 0.7),
        (8, 0.8),
    ]
    stored = kbert.load_pretrained(run.path).get_weights()
    assert same(stored, run.pipeline.model.get_weights())
    until = []
    at_best = AtStep(4, lambda model: until.extend(weights(model)))
    last = kbert.finetune(init, Scripted(), ROWS, DEV, **with_callback(at_best), keep="last")
    assert last.metrics["kept_step"] == 8 and not same(stored, last.pipeline.model.get_weights())
    assert same(until, stored)


def weights(model):
    return [variable.numpy() for variable in model.weights]


@pytest.mark.parametrize("step", slow_but([7], [5, 7]))
def test_a_run_killed_after_its_best_epoch_is_resumed_to_the_same_model(init, run, tmp_path, step):
    with pytest.raises(Killed):  # the last checkpoint is of step 3 or 6: before or after the best evaluation
        kbert.finetune(init, Scripted(), ROWS, DEV, tmp_path / "run", **with_callback(killed_at(step)))
    stored = {path.parent.name for path in (tmp_path / "run" / "checkpoints").glob("*/callbacks.npz")}
    assert stored == {f"step-{saved:010d}" for saved in (3, 6) if 2 < saved < step}  # the best weights so far
    unfinished = kbert.load_pretrained(tmp_path / "run")  # its last checkpoint
    assert unfinished.task == run.pipeline.model.task
    assert list(unfinished.pretrained.settings.task.labels) == list(run.pipeline.settings()["labels"])
    resumed = kbert.finetune(init, Scripted(), ROWS, DEV, tmp_path / "run", **PLAN)
    assert same(resumed.pipeline.model.get_weights(), run.pipeline.model.get_weights())
    for name in ("dev", "evaluations", "kept_step"):
        assert resumed.metrics[name] == run.metrics[name]
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert [record["step"] for record in resumed.history] == [record["step"] for record in run.history]


def test_a_finished_run_is_returned_without_its_data(init, run, monkeypatch):
    monkeypatch.setattr(kbert.tasks.Classification, "training_data", None)
    again = kbert.finetune(init, Scripted(), ROWS, DEV, run.path, **PLAN, reuse=True)
    assert again.metrics == run.metrics and again.path == run.path
    assert same(again.pipeline.model.get_weights(), run.pipeline.model.get_weights())


def test_a_run_that_cannot_begin_leaves_nothing(init, tmp_path):
    with pytest.raises(ValueError, match="`class_weight`"):
        kbert.finetune(init, TASK, ROWS, output=tmp_path / "run", **NO_DEV, class_weight={"ugly": 2.0})
    assert not (tmp_path / "run").exists()


def test_no_error_in_what_is_given_deletes_a_run(init, tmp_path):
    first = kbert.finetune(init, TASK, ROWS, output=tmp_path / "run", **NO_DEV | {"steps": 1})
    of_other_labels = kbert.build_pipeline(kbert.load_pretrained(init, "classification", labels=["no", "yes"]))
    with_lora = kbert.load_pretrained(init, "classification", labels=["bad", "good"])
    with_lora.enable_lora(2)
    (tmp_path / "wrong.csv").write_text("text,label\na film,ugly\n")
    for wrong, message in (
        ({"source": tmp_path / "none"}, "none"),
        ({"source": tmp_path}, "which holds"),
        ({"source": with_lora, "lora_rank": 2}, "`lora_rank` needs a model without LoRA"),
        ({"train": ROWS[:1]}, "label"),
        ({"dev": tmp_path / "wrong.csv"}, "wrong.csv, line 2: .*'ugly'"),
        ({"dev": tmp_path / "none.csv"}, "none.csv"),
        ({"dev": DEV, "more_dev": {"_more": tmp_path / "wrong.csv"}}, "wrong.csv, line 2: .*'ugly'"),
        ({"class_weight": {"ugly": 2.0}}, "`class_weight`"),
        ({"sequence_length": 1000}, "sequence_length"),
        ({"teacher": of_other_labels}, "`teacher`: expected a model with the labels"),
        ({"teacher": with_lora, "unlabelled": tmp_path / "none.txt"}, "none.txt"),
    ):
        options = {"source": init, "task": TASK, "train": ROWS, "output": first.path} | NO_DEV | wrong
        with pytest.raises((FileNotFoundError, ValueError), match=message):
            kbert.finetune(**options, overwrite=True)
        assert read_json(first.path / "metrics.json") == first.metrics


@pytest.mark.parametrize("dev", [DEV, None])
def test_callbacks_with_a_state_are_resumed(init, tmp_path, dev):
    options = QUICK | {"steps": 4, "checkpoint_every": 2, "log_every": 1, "evaluate_every": 1 if dev else None}
    undisturbed = Counting()
    kbert.finetune(init, TASK, ROWS, dev, **options, callbacks=[undisturbed])
    with pytest.raises(Killed):
        kbert.finetune(init, TASK, ROWS, dev, tmp_path, **options, callbacks=[Counting(), killed_at(3)])
    with pytest.raises(ValueError, match=r"has the states of \d callbacks. Received: \d with"):
        kbert.finetune(init, TASK, ROWS, dev, tmp_path, **options)
    resumed = Counting()
    kbert.finetune(init, TASK, ROWS, dev, tmp_path, **options, callbacks=resumed)
    assert resumed.seen == undisturbed.seen == 4


def test_more_dev_is_scored_with_what_was_chosen_on_dev(init):
    rows = {
        "question": ["the film", "a book", "good", "bad"],
        "context": ["the film is good", "a book is bad", "the film", "a book"],
        "answer": ["good", "bad", "", ""],
    }
    task = kbert.tasks.SpanExtraction(version="2.0", doc_stride=4)
    options = {"steps": 1, "batch_size": 4, "sequence_length": 12}
    metrics = kbert.finetune(init, task, rows, rows, more_dev={"_again": rows}, **options).metrics
    dev = metrics["dev"]
    assert metrics["null_threshold"] is not None
    assert {name: dev[f"{name}_again"] for name in task.metrics} == {name: dev[name] for name in task.metrics}


def test_the_random_numbers_of_the_user_go_on(init):
    assert_not_reset(lambda: kbert.finetune(init, TASK, ROWS, **NO_DEV | {"steps": 1}, lora_rank=2))


def test_history_has_the_scores(run):
    assert [r["val_accuracy"] for r in run.history if "val_accuracy" in r] == [0.5, 0.9, 0.7, 0.8]


def test_a_notebook_does_not_print_every_row(run):
    examples = TASK.examples(ROWS)
    assert repr(examples) == "<LabelledText: 30 rows of rows in memory>"
    assert len(repr(run)) < 2000 and "kept_step" in repr(run) and "learning_rate" not in repr(run)


@pytest.mark.parametrize("task", [kbert.tasks.Classification, "classification"])
def test_what_is_no_task_object_is_named(init, run, task):
    with pytest.raises(
        TypeError, match=r"expected `task` as a task object, such as kbert\.tasks.*Received: .*lassification"
    ):
        kbert.finetune(init, task, ROWS, **NO_DEV)
    with pytest.raises(TypeError, match=r"evaluate: expected `task` as a task object"):
        kbert.evaluate(run.pipeline, task, ROWS)


@dataclasses.dataclass(frozen=True)
class Errors(kbert.tasks.Regression):
    """The error rises from one evaluation to the next."""

    def evaluate(self, pipeline, examples, **options):
        done = int(pipeline.model.optimizer.iterations.numpy())
        return Evaluation({"mean_squared_error": {2: 0.1, 4: 9.0}[done]}, None)


@pytest.mark.slow  # training/test_stages.py
@pytest.mark.parametrize(
    "keep, step, kept",
    [("best", 3, 2), ("best", 1, 1), ("last", 3, 3)],  # 1: before the first evaluation
)
def test_a_run_that_a_callback_stopped(init, keep, step, kept):
    """The figures are of the steps that were done, and of the weights that the model has.

    Until then it has the weights of a run without evaluations.
    """
    seen = []

    def stop(model):
        seen.extend(weights(model))
        model.stop_training = True

    run = kbert.finetune(init, TASK, ROWS, DEV, **SHORT | {"keep": keep} | {"callbacks": AtStep(step, stop)})
    assert run.metrics["steps"] == run.history[-1]["step"] == step
    assert run.metrics["kept_step"] == kept
    assert same(seen, run.pipeline.model.get_weights()) == (kept == step)
    assert run.metrics["dev"]["accuracy"] == kbert.evaluate(run.pipeline, TASK, DEV)["accuracy"]
    with_evaluations, seen = seen, []
    silent = kbert.finetune(init, TASK, ROWS, **SHORT | {"evaluate_every": None} | {"callbacks": AtStep(step, stop)})
    assert same(with_evaluations, seen) and "dev" not in silent.metrics


class Seen(keras.callbacks.Callback):
    """What a callback is told."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def on_train_begin(self, logs=None):
        self.calls.append("begin")

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("from", epoch))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("to", epoch, logs["step"], logs["val_accuracy"]))

    def on_train_end(self, logs=None):
        self.calls.append("end")


@pytest.mark.slow  # test_callbacks_watch_official_metrics
def test_epochs_of_callbacks_end_with_an_evaluation(init):
    """Windows of two steps, of which three of six, and the last one, which is half a window, have an evaluation."""
    plan = QUICK | {"steps": 11, "evaluate_every": 3}
    seen, stop = Seen(), keras.callbacks.EarlyStopping("val_accuracy", patience=9)
    kbert.finetune(
        init, Scripted(script=(0.5, 0.9, 0.7, 0.7), every=3), ROWS, DEV, **plan | {"callbacks": [seen, stop]}
    )
    ends = [call for call in seen.calls if call[0] == "to"]
    assert [(epoch, score) for _, epoch, _, score in ends] == [(0, 0.5), (1, 0.9), (2, 0.7), (3, 0.7)]
    assert seen.calls[0] == "begin" and seen.calls[-1] == "end" and len(seen.calls) == 10
    assert [call for call in seen.calls if call[0] == "from"] == [("from", n) for n in range(4)]
    assert (stop.best, stop.wait) == (0.9, 2)


def test_an_evaluation_just_before_the_last_is_left_out(init):
    seen = Seen()
    run = kbert.finetune(init, Scripted(), ROWS, DEV, **QUICK | {"steps": 6, "evaluate_every": 5} | {"callbacks": seen})
    assert [record["step"] for record in run.metrics["evaluations"]] == [6]
    assert [call[1] for call in seen.calls if call[0] == "to"] == [0]


@pytest.mark.filterwarnings("error:Early stopping")
@pytest.mark.parametrize("lower", slow_but([True], [False, True]))
def test_callbacks_watch_official_metrics(init, lower):
    """And of errors the lowest is the best."""
    rows = [(text, len(label)) for text, label in ROWS]
    task, data = (Errors(metrics="mean_squared_error"), rows) if lower else (TASK, ROWS)
    stop = keras.callbacks.EarlyStopping("val_mean_squared_error" if lower else "val_macro_f1")
    run = kbert.finetune(init, task, data, data[:9], **SHORT | {"callbacks": stop})
    assert stop.monitor_op is (keras.ops.less if lower else keras.ops.greater)
    if lower:
        assert [one["step"] for one in run.metrics["evaluations"]] == [2, 4] and run.metrics["kept_step"] == 2


@pytest.mark.parametrize("in_pipeline", slow_but([True], [False, True]))
def test_an_estimate_leaves_the_model_as_it_is(init, in_pipeline):
    model = kbert.load_pretrained(init, "classification", labels=["bad", "good"])
    model.compile("sgd")
    optimizer, before = model.optimizer, model.get_weights()
    source = kbert.build_pipeline(model) if in_pipeline else model
    run = kbert.finetune(source, TASK, ROWS, **NO_DEV, optimization=Optimization(accumulate=2), dry_run=True)
    assert run.pipeline.model is model and run.metrics["seconds_per_step"] > 0
    assert same(before, model.get_weights()) and (model.optimizer, model.micro_batches) == (optimizer, 1)


def test_xla_where_it_is_asked_for(init):
    for xla in ("on", "off"):
        run = kbert.finetune(init, TASK, ROWS, **NO_DEV | {"steps": 1}, machine=Machine(xla=xla))
        assert run.pipeline.model.jit_compile == (xla == "on")


@pytest.mark.slow  # models/test_train_in_parts.py
def test_accumulated_batches_are_the_batch(init):
    """Without dropout, in two steps: the rows of a step are the same ones, in two parts."""
    plan = QUICK | {"steps": 2, "dropout": 0.0, "keep": "last", "evaluate_every": None, "warmup_proportion": 0.5}
    options = [Optimization(layer_decay=0.5, weight_decay=0.3, accumulate=n) for n in (1, 2)]
    whole, parts = (kbert.finetune(init, TASK, ROWS, **plan, optimization=each).pipeline.model for each in options)
    assert whole.optimizer.layer_decay == parts.optimizer.layer_decay == 0.5
    assert (whole.optimizer.weight_decay, whole.optimizer._learning_rate.warmup_steps) == (0.3, 1)
    assert parts.micro_batches == 2 and int(parts.optimizer.iterations.numpy()) == 2
    for one, other in zip(whole.get_weights(), parts.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    with pytest.raises(ValueError, match=r"multiple of `accumulate`, 3. Received: \[8\]"):
        kbert.finetune(init, TASK, ROWS, **NO_DEV, optimization=Optimization(accumulate=3))


def test_replicas_divide_their_shares(init, monkeypatch):
    two = Hardware(object(), "mirrored", 2, "float32", False, ())
    monkeypatch.setattr("kbert.training.choose_hardware", lambda *arguments, **options: two)
    with pytest.raises(ValueError, match=r"multiple of `accumulate`, 8 times the 2 replicas. Received: \[8\]"):
        kbert.finetune(init, TASK, ROWS, **NO_DEV, optimization=Optimization(accumulate=8))
