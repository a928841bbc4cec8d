"""Phases of a run: consecutive calls of `train` with one optimizer, whose batches differ in shape."""

import keras
import pytest
from helpers import tiny_pretraining as tiny
from helpers.at_step import Killed, killed_at
from helpers.compare import assert_arrays_equal

from kbert.pretraining.run.course import Course, Phase
from kbert.training import ExactResume, RunLog, train


def test_the_steps_of_phases():
    planned = tuple(Phase(*phase) for phase in ((128, 0.25, 32, 20), (256, 0.65, 16, 20), (512, 0.1, 8, 20)))
    assert Course(planned, 11).ends == [3, 10, 11] and Course(planned, 11).phase_steps == [3, 7, 1]
    assert Course(planned[:2], 12, multiple=4).ends == [4, 12]


def phases(output, *callbacks):
    """Trains four steps on batches of 6 rows, then three on batches of 4."""
    model = tiny.compiled_model(num_layers=1)
    log = RunLog(output)
    resume = ExactResume(output, model, every=2)
    done = resume.step
    for end, rows in ((4, 6), (7, 4)):
        done = train(
            model,
            lambda start_step, rows=rows: tiny.make_dataset(start_step, rows),
            7,
            start=done,
            end=end,
            log_every=3,
            callbacks=[log, *callbacks, resume],
        )
    return log.records, [variable.numpy() for variable in model.variables], done


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("step", [3, 4, 6])
def test_phases_are_resumed_bit_for_bit(tmp_path, step):
    history, weights, done = phases(tmp_path / "whole")
    assert [record["step"] for record in history] == [2, 3, 4, 6, 7] and done == 7
    with pytest.raises(Killed):
        phases(tmp_path / "killed", killed_at(step))
    again, found, _ = phases(tmp_path / "killed")
    assert_arrays_equal(found, weights)
    assert [(record["step"], record["loss"]) for record in again] == [(one["step"], one["loss"]) for one in history]


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("hook, last", [("on_train_batch_begin", 3), ("on_epoch_end", 4)])
def test_a_callback_stops_a_run(hook, last):
    def stop(*arguments, **logs):
        if int(model.optimizer.iterations.numpy()) >= 2:
            model.stop_training = True

    model = tiny.compiled_model(num_layers=1)
    log = RunLog()
    callbacks = [log, keras.callbacks.LambdaCallback(**{hook: stop})]
    assert train(model, tiny.make_dataset, 20, log_every=4, callbacks=callbacks) == last
    assert [record["step"] for record in log.records] == [last]
