"""Event files: read by TensorFlow whoever wrote them, in order, and cut back to a step."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers.event_files import read_events, read_scalars

from kbert.inspection.board import event_file
from kbert.inspection.board.event_file import EventFile, event_files, remove_later_steps
from kbert.inspection.board.summaries import histogram, scalar, session_settings


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
    file.write_graph(b"graph")
    file.flush()
    file.close()
    monkeypatch.undo()
    events = [event for _, event in read_events(tmp_path)]
    assert [event.step for event in events] == [0, 5, 7, 0] and events[0].file_version == "brain.Event:2"
    assert events[1].session_log.status == tf.compat.v1.SessionLog.START and events[3].graph_def == b"graph"
    point, distribution = events[2].summary.value
    assert point.metadata.summary_description == "**what**" and tf.make_ndarray(point.tensor) == 0.25
    buckets = tf.make_ndarray(distribution.tensor)
    assert buckets.shape == (30, 3) and buckets[:, 2].sum() == 3 and buckets[-1, 2] == 2 and buckets[0, 0] == 0


def test_files_are_read_in_the_order_in_which_they_were_made(tmp_path, monkeypatch):
    for seconds in (2000, 2000, 1000, 3000):  # two in a second, and a clock that was set back
        monkeypatch.setattr(event_file.time, "time", lambda seconds=seconds: float(seconds))
        write(tmp_path, len(event_files(tmp_path)))
    assert [step for step, _ in read_scalars(tmp_path)[tmp_path.name, "loss/loss"]] == [0, 1, 2, 3]


def test_later_steps_are_removed_and_nothing_else(tmp_path):
    write(tmp_path / "train", 0, 4, 8)
    write(tmp_path / "train", 9, 10, start=9)
    write(tmp_path / "validation", 4)
    deeper, layers = tmp_path / "another" / "train", tmp_path / "inspection"
    write(deeper, 4, 8)
    write(layers, 0, 6, 12)
    untouched = {
        path: path.read_bytes()
        for path in [*event_files(tmp_path / "validation"), *event_files(deeper), *event_files(layers)]
    }
    remove_later_steps(tmp_path, 4)
    assert read_scalars(tmp_path / "train")["train", "loss/loss"] == [(0, 0.0), (4, 0.5)]
    assert all(path.read_bytes() == content for path, content in untouched.items())


@pytest.mark.parametrize("damage", [bytes(48), (8).to_bytes(8, "little") + b"\xff" * 16])
def test_a_file_is_cut_before_a_damaged_event(tmp_path, damage):
    write(tmp_path / "train", 4, 8)
    (path,) = event_files(tmp_path / "train")
    whole = path.read_bytes()
    path.write_bytes(whole + damage)
    remove_later_steps(tmp_path, 100)
    assert path.read_bytes() == whole


def test_a_file_that_ends_within_an_event_is_cut_before_it(tmp_path):
    write(tmp_path / "train", 2, 3)
    (path,) = event_files(tmp_path / "train")
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(tf.errors.DataLossError):
        list(read_events(tmp_path))
    remove_later_steps(tmp_path, 100)
    assert read_scalars(tmp_path)["train", "loss/loss"] == [(2, 0.25)]


def test_settings_become_numbers_bools_and_strings():
    given = {"a": None, "b": True, "c": np.int64(3), "d": 0.5, "e": [[128, 0.9]], "f": float("inf"), "g": "x"}
    assert session_settings(given | {"h": {"k": 1}}) == {
        "b": True,
        "c": 3,
        "d": 0.5,
        "e": "[[128, 0.9]]",
        "f": "inf",
        "g": "x",
        "h": '{"k": 1}',
    }
