"""A long prediction says how far it is."""

import types

import numpy as np
import pytest
from helpers import tiny_pretraining as tiny

from kbert.training import progress
from kbert.training.progress import PredictionProgress, clock


def set_clock(monkeypatch, clock):
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(perf_counter=clock))


def test_a_line_now_and_then_with_the_time_left(monkeypatch, caplog):
    set_clock(monkeypatch, iter([0.0, 4.0, 20.0, 21.0, 40.0, 60.0]).__next__)
    one = PredictionProgress(3000, 500)
    for batch in range(4):
        one.on_predict_batch_end(batch)
    one.done(3000)  # nothing is left to say
    lines = [record.getMessage() for record in caplog.records if record.name == "kbert"]
    assert lines == ["1,000 of 3,000 rows predicted, 0:00:40 left", "2,000 of 3,000 rows predicted, 0:00:20 left"]


@pytest.mark.usefixtures("eagerly")
def test_short_predictions_are_silent(monkeypatch, caplog):
    set_clock(monkeypatch, iter([0.0, 8.0, 9.0]).__next__)
    model = tiny.model()
    inputs = {name: np.asarray(value) for name, value in next(iter(tiny.make_dataset()))[0].items()}
    caplog.clear()
    model.predict(inputs, verbose=0, callbacks=[PredictionProgress(4, 2)])
    assert not [record for record in caplog.records if record.name == "kbert"]


def test_clock():
    assert [clock(seconds) for seconds in (0.4, 61, 3723)] == ["0:00:00", "0:01:01", "1:02:03"]
