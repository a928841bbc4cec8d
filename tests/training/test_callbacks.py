"""What is printed, and what TensorBoard finds."""

import re

import pytest
import tensorflow as tf
from helpers import tiny_pretraining as tiny

from kbert.training.callbacks import ConsoleProgress, TensorBoardScalars
from kbert.training.resume import fit_steps


def scalars(log_dir):
    """{(run, tag): {step: value}} of all event files."""
    found = {}
    for path in sorted(log_dir.rglob("*tfevents*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                series = found.setdefault((path.parent.name, value.tag), {})
                series[event.step] = float(tf.make_ndarray(value.tensor))
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    output = tmp_path_factory.mktemp("run")
    history = fit_steps(
        tiny.model(),
        tiny.make_dataset,
        7,
        output,
        window=3,
        validation_data=tiny.make_dataset(500),
        validation_steps=2,
        real_share=0.75,
        callbacks=[ConsoleProgress(), TensorBoardScalars(output / "logs")],
    )
    return output, history


def test_tensorboard_has_the_curves(run):
    output, history = run
    found = scalars(output / "logs")
    both = ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "mlm_perplexity", "mlm_cross_entropy", "nsp_accuracy")
    train = ("learning_rate", "gradient_norm", "tokens_per_second", "real_tokens_per_second", "steps_per_second")
    assert found.keys() == {("train", tag) for tag in both + train} | {("validation", tag) for tag in both}
    for (name, tag), series in found.items():
        field = tag if name == "train" else f"val_{tag}"
        assert series == pytest.approx({record["step"]: record[field] for record in history}, rel=1e-6)
    assert list(found["train", "loss"]) == [3, 6, 7]


def test_real_tokens_are_a_share_of_the_nominal(run):
    for record in run[1]:
        assert record["real_tokens_per_second"] == pytest.approx(0.75 * record["tokens_per_second"])
        assert record["tokens_per_second"] == pytest.approx(tiny.B * tiny.S * record["steps_per_second"])


def test_console_prints_a_line_a_window(tmp_path, caplog):
    fit_steps(tiny.model(), tiny.make_dataset, 5, tmp_path, window=4, callbacks=[ConsoleProgress()])
    lines = [record.getMessage() for record in caplog.records if record.name == "kbert"]
    assert len(lines) == 3 and lines.pop(0).startswith("first step done after ")
    assert re.fullmatch(
        r"step 4/5  loss \d+\.\d{4}  mlm_accuracy 0\.\d{4}  mlm_loss \d\.\d{4}  nsp_accuracy \d\.\d{4}  "
        r"nsp_loss \d\.\d{4}  lr 0\.009  [\d,]+ tokens/s  left \d:\d\d:\d\d",
        lines[0],
    )
    assert lines[1].startswith("step 5/5 ") and lines[1].endswith("left 0:00:00")


def test_both_go_with_plain_fit(tmp_path, caplog):
    model = tiny.model()
    callbacks = [ConsoleProgress(), TensorBoardScalars(tmp_path)]
    model.fit(tiny.make_dataset(), steps_per_epoch=2, epochs=2, callbacks=callbacks, verbose=0)
    assert [record.getMessage().split()[1] for record in caplog.records if record.name == "kbert"] == ["step", "2", "4"]
    assert list(scalars(tmp_path)["train", "gradient_norm"]) == [2, 4]
