"""The constant answer."""

import numpy as np
import pytest

from kbert.tasks.classification.baseline import constant_baseline
from kbert.tasks.classification.labelled_text import LabelledText


def _labelled(labels):
    return LabelledText([f"t{n}" for n in range(len(labels))], np.array(labels))


def test_the_most_frequent_training_label_is_answered():
    scores = constant_baseline(_labelled([0, 1, 1]), _labelled([1, 0, 0, 0]), ["accuracy", "f1"])
    assert scores == {"accuracy": 0.25, "f1": pytest.approx(2 / 5)}


def test_of_scores_the_mean():
    scores = constant_baseline(_labelled([1.0, 3.0]), _labelled([2.0, 4.0]), ["mean_squared_error", "pearson"])
    assert scores == {"mean_squared_error": 2.0, "pearson": 0.0}


def test_mrpc(shared_data):
    from kbert.tasks.glue.tasks import GLUE_TASKS

    task = GLUE_TASKS["MRPC"]
    train, dev = (task.read(shared_data / "glue", split) for split in ("train", "dev"))
    scores = constant_baseline(train, dev, task.metrics)
    assert scores == {"f1": pytest.approx(0.8122, abs=1e-4), "accuracy": pytest.approx(0.6838, abs=1e-4)}
