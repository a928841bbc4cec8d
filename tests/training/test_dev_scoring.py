"""`DevScoring`: in a plain `fit`, and in runs that are killed between an evaluation and its checkpoint."""

import keras
import pytest
from helpers import tiny_pretraining as tiny
from helpers.at_step import Killed, killed_at
from helpers.compare import assert_arrays_equal

from kbert.training import DevScoring, ExactResume, train
from kbert.training.logs import updates_done

ACCURACY = {2: 0.5, 4: 0.9, 6: 0.7, 8: 0.8, 10: 0.6}  # after these steps


class Epochs(keras.callbacks.Callback):
    """Remembers what it is told."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("begin", epoch))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("end", epoch, logs["step"], logs["val_accuracy"]))

    def on_train_end(self, logs=None):
        self.calls.append("over")


def scripted(model, **options):
    return DevScoring(lambda: {"accuracy": ACCURACY[updates_done(model.optimizer)]}, "accuracy", **options)


def test_it_goes_with_plain_fit(caplog):
    """On data whose length `fit` and `evaluate` do not know, before a callback that waits for scores."""
    caplog.set_level("INFO", "kbert")
    model = tiny.compiled_model(num_layers=1)
    unknown = tiny.make_dataset(300).take(2).filter(lambda *batch: True)
    scoring = tiny.held_out(model, unknown)
    stop = keras.callbacks.EarlyStopping("val_loss", min_delta=100, patience=2)
    weights = []
    kept = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: weights.append(model.get_weights()))
    model.fit(tiny.make_dataset(), epochs=9, steps_per_epoch=2, callbacks=[scoring, stop, kept], verbose=0)
    assert [record["step"] for record in scoring.records] == [2, 4, 6]
    shown = [message for message in caplog.messages if "dev:" in message]
    assert [line.count("loss") for line in shown] == [1, 1, 1]  # which is the metric, too
    scoring.restore_kept(model)
    assert_arrays_equal(model.get_weights(), weights[scoring.best_step() // 2 - 1])


@pytest.mark.usefixtures("eagerly")
def test_a_resumed_fit_does_not_repeat_evaluations(tmp_path):
    def fit(epochs):
        model = tiny.compiled_model(num_layers=1)
        scoring = scripted(model, steps=[2, 6])
        resume = ExactResume(tmp_path, model, 2, callbacks=[scoring])
        options = {"steps_per_epoch": 2, "initial_epoch": resume.epoch, "epochs": epochs, "verbose": 0}
        model.fit(tiny.make_dataset(resume.step), callbacks=[scoring, resume], **options)
        return [record["step"] for record in scoring.records]

    assert [fit(epochs) for epochs in (1, 2, 4)] == [[2], [2], [2, 6]]


@pytest.mark.usefixtures("eagerly")
def test_an_evaluation_is_an_epoch_of_the_callbacks_in_it():
    model, epochs = tiny.compiled_model(num_layers=1), Epochs()
    scoring = scripted(model, steps=[2, 4, 6], callbacks=[epochs])
    train(model, tiny.make_dataset, 6, log_every=1, callbacks=[scoring])
    ends = [("end", n, step, ACCURACY[step]) for n, step in enumerate((2, 4, 6))]
    assert epochs.calls == [("begin", 0), ends[0], ("begin", 1), ends[1], ("begin", 2), ends[2], "over"]


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("step", [5, 7])
def test_a_killed_run_keeps_the_best_weights_and_stops_at_the_same_step(tmp_path, step):
    """The best is at step 4, checkpoints are at 3, 6 and 9: it is not yet in the one before it."""

    def run(output, *callbacks):
        model = tiny.compiled_model(num_layers=1)
        scoring = scripted(model, steps=[2, 4, 6, 8, 10], patience=2)
        resume = ExactResume(output, model, every=3, callbacks=[scoring])
        options = {"start": resume.step, "log_every": 100, "callbacks": [scoring, *callbacks, resume]}
        assert train(model, tiny.make_dataset, 10, **options) == 8
        scoring.restore_kept(model)
        return scoring.records, model.get_weights()

    records, weights = run(tmp_path / "whole")
    assert [record["step"] for record in records] == [2, 4, 6, 8]
    with pytest.raises(Killed):
        run(tmp_path / "killed", killed_at(step))
    for _ in range(2):  # the second time nothing is left to train
        again, found = run(tmp_path / "killed")
        assert again == records
        assert_arrays_equal(found, weights)
