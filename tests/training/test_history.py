"""The curves of a run: what is damaged is reported and dropped, the rest is kept."""

import json

import pytest

from kbert.training.logs import History, training_minutes

GOOD = [{"step": 100, "loss": 5.0}, {"step": 200, "loss": 4.0}, {"step": 300, "loss": 3.0}]
DAMAGED = {
    "cut off": b'{"step": 200, "lo',
    "no JSON": b"\x00\x00\x00\x00",
    "no UTF-8": b'{"step": 200, "loss\xff": 1}',
    "no step": b'{"loss": 4.0}',
    "a step that is no number": b'{"step": "200"}',
    "no object": b"[200]",
    "NaN": b'{"step": 200, "loss": NaN}',
    "nested": b'{"step": 200, "loss": ' + b"[" * 100_000,
    "empty": b"",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_line_is_reported_and_the_others_are_kept(tmp_path, caplog, damage):
    path = tmp_path / "history.jsonl"
    lines = [json.dumps(record).encode() for record in GOOD]
    path.write_bytes(b"\n".join([lines[0], DAMAGED[damage], lines[2], lines[1]]) + b"\n")
    assert History(path, step=300).records == [GOOD[0], GOOD[2], GOOD[1]]
    assert f"{path}, line 2: " in (out := caplog.text) and "This line is dropped." in out
    assert [json.loads(line) for line in path.read_text().splitlines()] == [GOOD[0], GOOD[2], GOOD[1]]


def test_records_of_work_that_is_done_again_are_dropped(tmp_path, caplog):
    path = tmp_path / "history.jsonl"
    for record in GOOD:
        History(path, 300).append(record)
    history = History(path, step=200)
    assert history.records == GOOD[:2] and not caplog.text
    history.append({"step": 300, "loss": 2.0, "gradient_norm": float("inf")})  # of a float16 step that was skipped
    assert json.loads(path.read_text().splitlines()[-1]) == {"step": 300, "loss": 2.0, "gradient_norm": None}
    assert History(path, step=300).records[-1]["gradient_norm"] is None and not caplog.text


def test_a_worker_that_does_not_write_leaves_the_file_as_it_is(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in GOOD) + '{"step": 4')
    before = path.stat()
    assert History(path, step=200, writes=False).records == GOOD[:2]
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_minutes_are_of_all_processes_of_a_run(tmp_path):
    path = tmp_path / "history.jsonl"
    for step, seconds in ((100, 90.0), (200, 60.0), (300, 600.0)):  # killed before the checkpoint of step 300
        History(path, 300).append({"step": step, "seconds": seconds})
    resumed = History(path, step=200)
    resumed.append({"step": 300, "seconds": 30.0})
    assert training_minutes([{"step": 0}, *resumed.records]) == 3.0 and training_minutes([]) == 0.0
