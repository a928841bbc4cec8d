"""A loss, gradient or weight that is not finite ends the run, names the step, and is never in a checkpoint."""

import json
import re
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny_pretraining as tiny
from helpers.at_step import AtStep
from helpers.forked_python import start_kbert
from helpers.run_recipe import as_flags
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

from kbert.commands import main
from kbert.models.classifier import BertClassifier
from kbert.optim.adamw import AdamW
from kbert.optim.metrics import Perplexity
from kbert.tasks.scores import check_scores
from kbert.training.divergence import is_finite
from kbert.training.exact_resume import restore_checkpoint
from kbert.weights.step_paths import checkpoint_paths, checkpoint_step

STEPS, WINDOW = 11, 4
FIRST, MIDDLE, LAST_OF_WINDOW, LAST = 1, 6, 8, 11


class BadGradient(AdamW):
    """One gradient of one update is NaN; the loss of that step is not."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.bad_step = tf.Variable(0, trainable=False)

    def update_all(self, grads, trainable_variables, learning_rate):
        is_bad = tf.equal(tf.cast(self.iterations, tf.int32), self.bad_step - 1)
        grads = [tf.convert_to_tensor(gradient) for gradient in grads]
        grads[0] = tf.where(is_bad, np.nan, grads[0])
        super().update_all(grads, trainable_variables, learning_rate)


def spoil_weight(model):
    """One number of one weight becomes infinite."""
    weight = model.trainable_variables[0]
    value = weight.numpy()
    value[3, 1] = np.inf
    weight.assign(value)


def bad_loss(make_dataset, step):
    """The same batches, with one sample weight that is NaN."""

    def make(start_step):
        def spoil(n, batch):
            inputs, labels, weights = batch
            factor = tf.where(n + start_step == step - 1, np.nan, 1.0)
            return inputs, labels, {name: weight * factor for name, weight in weights.items()}

        return make_dataset(start_step).enumerate().map(lambda n, batch: spoil(tf.cast(n, tf.int32), batch))

    return make


def pretrainer(make_optimizer):
    return tiny.compiled_model(make_optimizer())


def classifier(make_optimizer):
    keras.utils.set_random_seed(7)
    model = BertClassifier(tiny.config(), num_labels=3)
    model.compile(make_optimizer())
    return model


def sgd():
    return keras.optimizers.SGD(0.01)


def adamw():
    return AdamW(0.01)


def bad_gradient():
    return BadGradient(0.01)


def classifier_dataset(start_step=0):
    def batch(inputs, labels, weights):
        inputs = {name: value for name, value in inputs.items() if name != "mask_positions"}
        return inputs, {"logits": labels["nsp_logits"]}, {"logits": weights["nsp_logits"]}

    return tiny.make_dataset(start_step).map(batch)


TASKS = {"pretraining": (pretrainer, tiny.make_dataset), "fine-tuning": (classifier, classifier_dataset)}


def assert_checkpoints_are_good(output, model, step):
    """All that is kept is finite and from before the step."""
    saved = [checkpoint_step(path) for path in checkpoint_paths(output / "checkpoints")]
    assert all(done < step for done in saved)
    assert restore_checkpoint(output / "checkpoints", model)[0] == (step - 1) // WINDOW * WINDOW
    if saved:
        assert all(is_finite(v) for v in (*model.variables, *model.optimizer.variables))
    history = output / "history.jsonl"
    assert not history.exists() or "NaN" not in history.read_text() and "Infinity" not in history.read_text()


every_task = pytest.mark.parametrize("task", ["pretraining", pytest.param("fine-tuning", marks=pytest.mark.slow)])


@every_task
@pytest.mark.parametrize("step, window", [(FIRST, "1 to 4"), (MIDDLE, "5 to 8"), (LAST, "9 to 11")])
@pytest.mark.parametrize("optimizer", [sgd, adamw])
def test_a_loss_that_is_nan(tmp_path, task, step, window, optimizer):
    build, make_dataset = TASKS[task]
    where = rf"steps {window}: .*'loss': nan" if optimizer is sgd else f"step {step}: expected a finite gradient"
    with pytest.raises(FloatingPointError, match=f"diverged in {where}"):
        tiny.train(tiny.reused(build, optimizer), bad_loss(make_dataset, step), STEPS, tmp_path, window=WINDOW)
    assert_checkpoints_are_good(tmp_path, tiny.reused(build, optimizer), step)


@every_task
@pytest.mark.parametrize("step", [FIRST, MIDDLE, LAST_OF_WINDOW, LAST])
def test_a_gradient_that_is_nan(tmp_path, task, step):
    build, make_dataset = TASKS[task]
    model = tiny.reused(build, bad_gradient)
    model.optimizer.bad_step.assign(step)
    with pytest.raises(FloatingPointError, match=rf"diverged in step {step}: expected a finite gradient"):
        tiny.train(model, make_dataset, STEPS, tmp_path, window=WINDOW)
    assert_checkpoints_are_good(tmp_path, tiny.reused(build, bad_gradient), step)


@pytest.mark.parametrize("step", [LAST_OF_WINDOW, LAST])
def test_a_weight_that_is_infinite(tmp_path, step):
    """In the last step of a window, so that no loss shows it, by an optimizer that keeps no norm."""
    model = tiny.reused(pretrainer, sgd)
    with pytest.raises(FloatingPointError, match=rf"in steps \d+ to {step}: expected finite weights. Received.*embed"):
        tiny.train(model, tiny.make_dataset, STEPS, tmp_path, window=WINDOW, callbacks=[AtStep(step, spoil_weight)])
    assert_checkpoints_are_good(tmp_path, tiny.reused(pretrainer, sgd), step)


class Overflows(keras.optimizers.LossScaleOptimizer):
    """Under mixed_float16: the gradients of step `at` overflow, or, where that is 0, those of every step."""

    def __init__(self):
        super().__init__(AdamW(0.01), initial_scale=4.0)
        self.at, self.calls = tf.Variable(0), tf.Variable(0)

    def scale_loss(self, loss):
        call = self.calls.assign_add(1)
        return super().scale_loss(loss) * tf.where((self.at == 0) | (call == self.at), np.inf, 1.0)


@pytest.mark.usefixtures("eagerly")
def test_gradients_that_overflow_under_any_loss_scale_are(tmp_path):
    model = tiny.reused(pretrainer, Overflows)
    model.optimizer.at.assign(0)
    with pytest.raises(FloatingPointError, match="in steps 1 to 4: expected gradients that are finite under some loss"):
        tiny.train(model, tiny.make_dataset, STEPS, tmp_path, window=WINDOW)
    assert not (tmp_path / "checkpoints").exists()


def test_the_first_bad_update_is_remembered():
    optimizer = AdamW(0.1)
    variable = keras.Variable(np.ones(3, "float32"), name="kernel")
    optimizer.build([variable])
    for gradient in ([1.0, 1, 1], [1.0, np.inf, 1], [1.0, 1, 1], [np.nan, 1, 1]):
        optimizer.apply([tf.constant(gradient)], [variable])
    assert optimizer.first_non_finite.numpy() == 2


def test_scores_that_are_not_finite_are_an_error():
    check_scores(np.zeros((3, 2)))
    with pytest.raises(FloatingPointError, match="finite scores.*row 1.*nan"):
        check_scores(np.array([[0.0, 1.0], [np.nan, 0.0]]))


def test_perplexity_is_a_number_that_json_holds():
    metric = Perplexity()
    metric.update_state(np.array([[0]]), np.array([[[-1e4, 1e4]]], "float32"))
    assert json.loads(json.dumps(float(metric.result()), allow_nan=False)) > 1e38


def diverging(path):
    """The words of a command whose training diverges."""
    write_tiny_directory(path / "init")
    return (
        "finetune",
        "classification",
        *as_flags(train=write_table(path / "train.csv", sentences(48)), dev=0.1, source=path / "init"),
        *as_flags(steps=20, batch_size=8, sequence_length=9, learning_rate="1e38", checkpoint_every=10),
        *as_flags(output=path / "run"),
    )


def assert_one_line_and_no_metrics(printed, path):
    errors = [line for line in printed.splitlines() if line.startswith(("error", "Traceback", "  File"))]
    assert len(errors) == 1 and re.search(r"^error: Training diverged in step \d+: expected a finite", errors[0])
    assert not (path / "run" / "metrics.json").exists() and not (path / "run" / "model").exists()


@pytest.mark.usefixtures("eagerly")
def test_a_command_that_diverges_says_so_in_one_line_and_leaves_no_metrics(tmp_path, capsys):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in diverging(tmp_path)])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    # Python prints a string, and ends with status 1.
    assert_one_line_and_no_metrics(f"{capsys.readouterr().err}\n{stop.value.code}", tmp_path)


@pytest.mark.slow  # in this process: the test above
def test_a_process_that_diverges_says_so_in_one_line_and_leaves_no_metrics(tmp_path):
    done = start_kbert(*diverging(tmp_path)).finish()
    assert done.returncode == 1
    assert_one_line_and_no_metrics(done.stderr, tmp_path)
