"""Event files: read by TensorFlow whoever wrote them, and in order."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers.event_files import event_values, read_events, read_scalars
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from kbert.inspection.board import event_file
from kbert.inspection.board.event_file import EventFile, event_files
from kbert.inspection.board.summaries import histogram, scalar, session_start
from kbert.inspection.view import View


def write(directory, *steps, start=1):
    file = EventFile(directory, start)
    for step in steps:
        file.write(step, [scalar("loss/loss", step / 8)])
    file.close()


@pytest.mark.parametrize("with_tensorflow", [True, False])
def test_what_was_written_is_read(tmp_path, monkeypatch, with_tensorflow):
    if not with_tensorflow:
        monkeypatch.delitem(sys.modules, "tensorflow")
    file = EventFile(tmp_path / "train", start=5)
    file.write(7, [scalar("loss/loss", 0.25, "**what**"), histogram("weights/w", np.array([0.0, 1.0, 1.0, np.nan]))])
    file.write(8, [])
    file.flush()
    file.close()
    monkeypatch.undo()
    events = [event for _, event in read_events(tmp_path)]
    assert [event.step for event in events] == [0, 5, 7] and events[0].file_version == "brain.Event:2"
    assert events[1].session_log.status == tf.compat.v1.SessionLog.START
    point, distribution = events[2].summary.value
    assert point.metadata.summary_description == "**what**" and tf.make_ndarray(point.tensor) == 0.25
    buckets = tf.make_ndarray(distribution.tensor)
    assert buckets.shape == (30, 3) and buckets[:, 2].sum() == 3 and buckets[-1, 2] == 2 and buckets[0, 0] == 0


def test_files_are_read_in_the_order_in_which_they_were_made(tmp_path, monkeypatch):
    for seconds in (2000, 2000, 1000, 3000):  # two in a second, and a clock that was set back
        monkeypatch.setattr(event_file.time, "time", lambda seconds=seconds: float(seconds))
        write(tmp_path, len(event_files(tmp_path)))
    assert [step for step, _ in read_scalars(tmp_path)[tmp_path.name, "loss/loss"]] == [0, 1, 2, 3]


def test_settings_become_numbers_bools_and_strings():
    settings = {"a": None, "b": True, "c": np.int64(3), "d": 0.5, "e": [[128, 0.9]], "f": float("inf"), "g": "x"}
    value = session_start(settings | {"h": {"k": 1}})
    info = HParamsPluginData.FromString(value.metadata.plugin_data.content).session_start_info
    assert {name: getattr(value, value.WhichOneof("kind")) for name, value in info.hparams.items()} == {
        "b": True,
        "c": 3,
        "d": 0.5,
        "e": "[[128, 0.9]]",
        "f": "inf",
        "g": "x",
        "h": '{"k": 1}',
    }


def test_views_are_written(tmp_path):
    picture = np.arange(4 * 6 * 3, dtype="uint8").reshape(4, 6, 3)
    file = EventFile(tmp_path / "examples")
    file.flush()
    file.close()
    assert not list(tmp_path.iterdir())  # nothing was written
    views = [View("a/text", "**x**"), View("a/picture", picture, "a *picture*"), View("a/number", 0.25)]
    file.write(3, [view.summary() for view in views])
    file.write(7, [View("a/number", 0.5).summary()])
    file.flush()
    written = event_values(tmp_path)
    assert [value[:3] for value in written] == [
        (3, "a/text", "text"),
        (3, "a/picture", "images"),
        (3, "a/number", "scalars"),
        (7, "a/number", "scalars"),
    ]
    assert written[0][3] == "**x**" and written[2][3] == 0.25 and written[3][3] == 0.5
    np.testing.assert_array_equal(written[1][3], picture)
    file.close()
    file.write(9, [View("a/number", 1.0).summary()])  # into another file
    file.close()
    assert len(event_files(tmp_path / "examples")) == 2 and len(event_values(tmp_path)) == 5
