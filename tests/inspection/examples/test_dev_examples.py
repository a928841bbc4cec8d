"""What an evaluation shows is written when it was made, and nothing is predicted for it again."""

import time

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny_pretraining as tiny
from helpers.event_files import event_values
from helpers.tiny_pretraining import config

from kbert.inspection.examples.dev_examples import DevExamples
from kbert.inspection.view import View
from kbert.models.classifier import BertClassifier
from kbert.optim.adamw import AdamW
from kbert.tasks.task import Evaluation
from kbert.training.dev_scoring import DevScoring


class Evaluator:
    """Stands in for a task's evaluation: its number is what is shown."""

    def __init__(self, shows=True):
        self.done, self.shows = 0, shows

    def __call__(self):
        self.done += 1
        number = self.done
        show = (lambda: [View("shown", f"evaluation {number}")]) if self.shows else None
        return Evaluation({"accuracy": 0.5, "loss": 1.0 / self.done}, None, show=show)


@pytest.fixture(scope="module")
def model():
    model = BertClassifier(config(), num_labels=2)
    model.compile(AdamW(1e-3), run_eagerly=True)
    return model


def make_dataset(start_step=0):
    inputs = {"token_ids": np.full([4, 9], 7, "int32"), "segment_ids": np.zeros([4, 9], "int32")}
    inputs["padding_mask"] = np.ones([4, 9], bool)
    return tf.data.Dataset.from_tensors((inputs, {"logits": np.array([0, 1, 0, 1], "int32")})).repeat()


def shown(directory):
    return [(step, content) for step, _, _, content in event_values(directory)]


def test_evaluations_of_a_run(model, tmp_path):
    evaluate = Evaluator()
    evaluation = DevScoring(evaluate, "accuracy", [1, 3, 4, 5])
    callbacks = [DevExamples(evaluation, tmp_path)]
    tiny.train(model, make_dataset, 5, window=2, scoring=[evaluation], callbacks=callbacks)
    assert evaluate.done == 4
    assert shown(tmp_path) == [(1, "evaluation 1"), (3, "evaluation 2"), (4, "evaluation 3"), (5, "evaluation 4")]


def test_evaluating_takes_no_time_of_the_training(model, monkeypatch):
    """Nor do callbacks that show what was evaluated: the speeds of training leave them out."""
    evaluated = 0  # seconds
    real_clock = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: real_clock() + evaluated)

    class Slow(Evaluator):
        def __call__(self):
            nonlocal evaluated
            evaluated += 1000
            return super().__call__()

    history = tiny.train(model, make_dataset, 4, window=2, scoring=[DevScoring(Slow(), "accuracy", [1, 2, 3])])
    assert [record["step"] for record in history] == [1, 2, 3, 4]
    assert all(record["seconds"] < 500 and record["steps_per_second"] > 1 / 500 for record in history[1:])


def test_a_plain_fit(model, tmp_path):
    scoring = DevScoring(Evaluator(), "accuracy")
    before = int(model.optimizer.iterations)
    callbacks = [scoring, DevExamples(scoring, tmp_path)]
    model.fit(make_dataset(), epochs=2, steps_per_epoch=3, callbacks=callbacks, verbose=0)
    assert shown(tmp_path) == [(before + 3, "evaluation 1"), (before + 6, "evaluation 2")]


def test_nothing_to_show(model, tmp_path):
    evaluation = DevScoring(Evaluator(shows=False), "accuracy", [1])
    tiny.train(model, make_dataset, 1, scoring=[evaluation], callbacks=[DevExamples(evaluation, tmp_path / "logs")])
    assert not (tmp_path / "logs").exists()


def test_a_function_is_not_a_scoring():
    with pytest.raises(TypeError, match="DevExamples: `scoring` must be a DevScoring. Received: <class 'dict'>"):
        DevExamples(dict, "logs")
