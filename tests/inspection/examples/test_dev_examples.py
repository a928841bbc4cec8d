"""What an evaluation shows is written when it was made, and nothing is predicted for it again."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.event_files import event_values
from helpers.tiny_pretraining import config

from kbert.inspection.examples.dev_examples import DevExamples
from kbert.inspection.view import View
from kbert.models.classifier import BertClassifier
from kbert.optim.adamw import AdamW
from kbert.tasks.task import Evaluation
from kbert.training.dev_evaluation import DevEvaluation
from kbert.training.resume import fit_steps


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
    evaluation = DevEvaluation(evaluate, [1, 3, 4, 5], "accuracy")
    callbacks = [DevExamples(evaluation, tmp_path)]
    fit_steps(model, make_dataset, 5, window=2, evaluation=evaluation, callbacks=callbacks)
    assert evaluate.done == 4
    assert shown(tmp_path) == [(1, "evaluation 1"), (3, "evaluation 2"), (4, "evaluation 3"), (5, "evaluation 4")]


def test_showing_takes_no_time_of_the_training(model, tmp_path):
    """What it takes goes to the account of the evaluation, which the speeds of training leave out."""
    evaluation = DevEvaluation(Evaluator(), [1, 2], "accuracy")
    shown, paused = DevExamples(evaluation, tmp_path), []
    evaluation.pause = paused.append
    fit_steps(model, make_dataset, 2, window=1, evaluation=evaluation, callbacks=[shown])
    assert len(paused) == 4 and min(paused) > 0  # evaluating and showing, twice


def test_a_run_that_resumes_just_before_an_evaluation(model, tmp_path):
    """The evaluation before the first step is shown, too."""
    evaluate = Evaluator()
    fit_steps(model, make_dataset, 1, tmp_path / "run", window=1)
    evaluation = DevEvaluation(evaluate, [1, 2], "accuracy", tmp_path / "run")
    callbacks = [DevExamples(evaluation, tmp_path / "logs")]
    fit_steps(model, make_dataset, 2, tmp_path / "run", window=1, evaluation=evaluation, callbacks=callbacks)
    assert shown(tmp_path / "logs") == [(1, "evaluation 1"), (2, "evaluation 2")]


def test_a_plain_fit(model, tmp_path):
    evaluate = Evaluator()
    before = int(model.optimizer.iterations)
    callbacks = [DevExamples(evaluate, tmp_path, every=2)]
    model.fit(make_dataset(), epochs=5, steps_per_epoch=2, callbacks=callbacks, verbose=0)
    assert shown(tmp_path) == [(before + 4, "evaluation 1"), (before + 8, "evaluation 2")] and evaluate.done == 2


def test_nothing_to_show(model, tmp_path):
    evaluation = DevEvaluation(Evaluator(shows=False), [1], "accuracy")
    fit_steps(model, make_dataset, 1, evaluation=evaluation, callbacks=[DevExamples(evaluation, tmp_path / "logs")])
    assert not (tmp_path / "logs").exists()


def test_what_is_no_source():
    with pytest.raises(TypeError, match="expected `source` as a DevEvaluation or a function.*Received: 0.5"):
        DevExamples(0.5, "logs")
