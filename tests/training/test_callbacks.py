"""What a run prints, and what are callbacks."""

import re

import keras
import pytest
from helpers import tiny_pretraining as tiny

import kbert
from kbert.training.callbacks import ConsoleProgress, callback_list
from kbert.training.resume import fit_steps


def test_console_prints_a_line_a_window(tmp_path, caplog):
    fit_steps(tiny.model(), tiny.make_dataset, 5, tmp_path, window=4, callbacks=[ConsoleProgress()])
    lines = [record.getMessage() for record in caplog.records if record.name == "kbert"]
    assert len(lines) == 3 and lines.pop(0).startswith("first step done after ")
    assert re.fullmatch(
        r"step 4/5  loss \d+\.\d{4}  mlm_accuracy 0\.\d{4}  mlm_loss \d\.\d{4}  nsp_accuracy \d\.\d{4}  "
        r"nsp_loss \d\.\d{4}  lr 0\.009  [\d,]+ tokens/s  \d:\d\d:\d\d left",
        lines[0],
    )
    assert lines[1].startswith("step 5/5 ") and lines[1].endswith(" 0:00:00 left")


def test_it_goes_with_plain_fit(caplog):
    tiny.model().fit(tiny.make_dataset(), steps_per_epoch=2, epochs=2, callbacks=[ConsoleProgress()], verbose=0)
    assert [record.getMessage().split()[1] for record in caplog.records if record.name == "kbert"] == ["step", "2", "4"]


CALLS = {
    "finetune": lambda output=None, **bookkeeping: kbert.finetune(
        "nowhere/init", kbert.tasks.Classification(), [("a", "b")], output=output, bookkeeping=bookkeeping
    ),
    "pretrain": lambda **options: kbert.pretrain("nowhere.txt", vocabulary="nowhere.txt", steps=1, **options),
    "fit_steps": lambda **options: fit_steps(tiny.model(), tiny.make_dataset, 1, **options),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_are_no_callbacks_is_named(name):
    for wrong in ("x", [ConsoleProgress(), "x"], None):
        with pytest.raises(TypeError, match=f"{name}: `callbacks` must be a keras.callbacks.Callback.* Received: "):
            CALLS[name](callbacks=wrong)
    if name != "fit_steps":
        with pytest.raises(
            ValueError, match=f"{name}: `profile` needs a directory for the logs, `log_dir` or `output`"
        ):
            CALLS[name](profile="1:2")


@pytest.mark.parametrize("name", ["finetune", "pretrain"])
def test_the_learning_rate_is_not_set_by_callbacks(name, tmp_path):
    callbacks = (keras.callbacks.LearningRateScheduler(lambda step, rate: rate), keras.callbacks.ReduceLROnPlateau())
    for one in callbacks:
        kind = type(one).__name__
        with pytest.raises(ValueError, match=f"{name}: `callbacks` cannot set the learning rate.* Received: .*{kind}"):
            CALLS[name](callbacks=[ConsoleProgress(), one], output=tmp_path / "run")
        assert callback_list("fit_steps", one) == [one]
    assert not (tmp_path / "run").exists()


def test_a_single_callback_is_one():
    one = ConsoleProgress()
    assert callback_list("fit_steps", one) == callback_list("fit_steps", (one,)) == [one]
