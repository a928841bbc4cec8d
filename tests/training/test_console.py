"""What a run prints and records, under which names and how often, and what are callbacks."""

import json
import logging
import re
import types

import keras
import numpy as np
import pytest
from helpers import tiny_pretraining as tiny

import kbert
from kbert.inspection import TensorBoard
from kbert.training import callbacks
from kbert.training.callbacks import PredictionProgress, callback_list, clock
from kbert.training.console import log_to_console
from kbert.training.dev_scoring import DevScoring, without_neighbours
from kbert.training.exact_resume import ExactResume
from kbert.training.logs import readable_logs
from kbert.training.loop import train
from kbert.training.run_log import RunLog, read_history, training_minutes

GOOD = [{"step": 100, "loss": 5.0}, {"step": 200, "loss": 4.0}, {"step": 300, "loss": 3.0}]
DAMAGED = {
    "cut off": b'{"step": 200, "lo',
    "no JSON": b"\x00\x00\x00\x00",
    "no UTF-8": b'{"step": 200, "loss\xff": 1}',
    "nested": b'{"step": 200, "loss": ' + b"[" * 100_000,
    "empty": b"",
}


def test_lines_come_once(capsys, monkeypatch):
    root, stream = logging.getLogger(), logging.StreamHandler()  # as an import of TensorFlow may leave one
    monkeypatch.setattr(root, "handlers", [*root.handlers, stream])
    log_to_console()
    log_to_console()
    logging.getLogger("kbert").info("step 1/2")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "step 1/2\n")


def set_clock(monkeypatch, clock):
    monkeypatch.setattr(callbacks, "time", types.SimpleNamespace(perf_counter=clock))


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


def model(*outputs):
    return types.SimpleNamespace(output={name: None for name in outputs})


@pytest.mark.parametrize(
    "outputs, logs, names",
    [
        (
            ("mlm_logits", "nsp_logits"),
            ("loss", "mlm_logits_loss", "nsp_logits_accuracy", "val_loss", "val_mlm_logits_accuracy"),
            ["loss", "mlm_loss", "nsp_accuracy", "val_loss", "val_mlm_accuracy"],
        ),
        (
            ("mlm_logits",),
            ("loss", "accuracy", "val_loss", "val_perplexity"),
            ["loss", "mlm_loss", "mlm_accuracy", "val_loss", "val_mlm_loss", "val_mlm_perplexity"],
        ),
        (("logits",), ("loss", "accuracy", "val_accuracy"), ["loss", "accuracy", "val_accuracy"]),
        (
            ("start_logits", "end_logits"),
            ("loss", "start_logits_loss", "end_logits_accuracy"),
            ["loss", "start_loss", "end_accuracy"],
        ),
    ],
)
def test_names(outputs, logs, names):
    assert list(readable_logs(dict.fromkeys(logs, 1.0), model(*outputs))) == names


def test_console_prints_a_line_a_window(tmp_path, caplog):
    tiny.train(tiny.model(), tiny.make_dataset, 5, tmp_path, window=4)
    lines = [record.getMessage() for record in caplog.records if record.name == "kbert"]
    assert len(lines) == 3 and lines.pop(0).startswith("first step done after ")
    assert re.fullmatch(
        r"step 4/5  loss \d+\.\d{4}  mlm_accuracy 0\.\d{4}  mlm_loss \d\.\d{4}  nsp_accuracy \d\.\d{4}  "
        r"nsp_loss \d\.\d{4}  lr 0\.009  [\d,]+ tokens/s  \d:\d\d:\d\d left",
        lines[0],
    )
    assert lines[1].startswith("step 5/5 ") and lines[1].endswith(" 0:00:00 left")


def test_it_goes_with_plain_fit(caplog):
    tiny.model().fit(tiny.make_dataset(), steps_per_epoch=2, epochs=2, callbacks=[RunLog()], verbose=0)
    assert [record.getMessage().split()[1] for record in caplog.records if record.name == "kbert"] == ["step", "2", "4"]


class Around(keras.Model):
    """A model with an attribute `model`, as a pipeline has it, and without `output`."""

    def __init__(self):
        super().__init__()
        self.model = keras.layers.Dense(1)

    def call(self, inputs):
        return self.model(inputs)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("build", [Around, lambda: keras.Sequential([keras.layers.Dense(1)])])
def test_each_callback_goes_alone_with_models_of_plain_keras(tmp_path, build):
    inputs, labels = np.ones((4, 3), "float32"), np.ones((4, 1), "float32")

    def fit(make, initial_epoch=0):
        model = build()
        model.compile("sgd", "mse")
        model(inputs)
        callback = make(model)
        epochs = {"initial_epoch": getattr(callback, "epoch", initial_epoch), "epochs": initial_epoch + 2}
        model.fit(inputs, labels, batch_size=2, callbacks=[callback], verbose=0, **epochs)
        return callback

    assert [record["step"] for record in fit(lambda model: RunLog(tmp_path)).records] == [2, 4]
    assert [record["step"] for record in fit(lambda model: DevScoring(lambda: {"x": 1.0}, "x")).records] == [2, 4]
    fit(lambda model: TensorBoard(tmp_path / "logs"))
    assert list((tmp_path / "logs/train").iterdir())
    resumed = [fit(lambda model: ExactResume(tmp_path, model, 2), epoch) for epoch in (0, 2)]
    assert [(resume.epoch, resume.step) for resume in resumed] == [(2, 4), (4, 8)]


CALLS = {
    "finetune": lambda output=None, **options: kbert.finetune(
        "nowhere/init", kbert.tasks.Classification(), [("a", "b")], output=output, **options
    ),
    "pretrain": lambda **options: kbert.pretrain("nowhere.txt", vocabulary="nowhere.txt", steps=1, **options),
    "train": lambda **options: train(tiny.model(), tiny.make_dataset, 1, **options),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_are_no_callbacks_is_named(name):
    for wrong in ("x", [RunLog(), "x"], None):
        with pytest.raises(TypeError, match=f"{name}: `callbacks` must be a keras.callbacks.Callback.* Received: "):
            CALLS[name](callbacks=wrong)
    if name != "train":
        with pytest.raises(
            ValueError, match=f"{name}: `profile` needs a directory for the logs, `log_dir` or `output`"
        ):
            CALLS[name](profile="1:2")
        with pytest.raises(ValueError, match="`profile` must be steps to profile"):
            CALLS[name](profile="5:2", log_dir="logs")


@pytest.mark.parametrize("name", ["finetune", "pretrain"])
def test_the_learning_rate_is_not_set_by_callbacks(name, tmp_path):
    callbacks = (keras.callbacks.LearningRateScheduler(lambda step, rate: rate), keras.callbacks.ReduceLROnPlateau())
    for one in callbacks:
        kind = type(one).__name__
        with pytest.raises(ValueError, match=f"{name}: `callbacks` cannot set the learning rate.* Received: .*{kind}"):
            CALLS[name](callbacks=[RunLog(), one], output=tmp_path / "run")
        assert callback_list("train", one) == [one]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_line_is_reported_and_the_others_are_kept(tmp_path, caplog, damage):
    path = tmp_path / "history.jsonl"
    lines = [json.dumps(record).encode() for record in GOOD]
    path.write_bytes(b"\n".join([lines[0], DAMAGED[damage], lines[2], lines[1]]) + b"\n")
    RunLog(tmp_path).begin(300)
    assert f"{path}, line 2: " in (out := caplog.text) and "This line is dropped." in out
    assert [json.loads(line) for line in path.read_text().splitlines()] == [GOOD[0], GOOD[2], GOOD[1]]


def test_records_of_work_that_is_done_again_are_dropped(tmp_path, caplog):
    log = RunLog(tmp_path)
    for record in GOOD:
        log.append(record)
    again = RunLog(tmp_path)
    again.begin(200)
    assert again.records == GOOD[:2] and not caplog.text
    again.append({"step": 300, "loss": 2.0, "gradient_norm": float("inf")})  # of a float16 step that was skipped
    last = {"step": 300, "loss": 2.0, "gradient_norm": None}
    assert read_history(tmp_path / "history.jsonl") == [*GOOD[:2], last] and not caplog.text
    again.begin(0)  # there is no checkpoint
    assert read_history(tmp_path / "history.jsonl") == []


def test_a_worker_that_does_not_write_leaves_the_file_as_it_is(tmp_path, monkeypatch):
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in GOOD) + '{"step": 4')
    before = path.stat()
    monkeypatch.setattr("kbert.training.run_log.is_chief", lambda model: False)
    tiny.model().fit(tiny.make_dataset(), steps_per_epoch=2, callbacks=[RunLog(tmp_path)], verbose=0)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_minutes_are_of_all_processes_of_a_run(tmp_path):
    log = RunLog(tmp_path)
    for step, seconds in ((100, 90.0), (200, 60.0), (300, 600.0)):  # killed before the checkpoint of step 300
        log.append({"step": step, "seconds": seconds})
    resumed = RunLog(tmp_path)
    resumed.begin(200)
    resumed.append({"step": 300, "seconds": 30.0})
    assert training_minutes([{"step": 0}, *resumed.records]) == 3.0 and training_minutes([]) == 0.0


def test_there_is_no_evaluation_just_before_the_last():
    for due, kept in (
        ([7, 14, 15], [7, 15]),
        ([100, 200, 201], [100, 201]),
        ([30, 31], [31]),
        ([85, 170, 195], [85, 170, 195]),
        ([3], [3]),
    ):
        assert without_neighbours(due) == kept
