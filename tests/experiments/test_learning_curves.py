"""Learning curves: tokens and hours of a history, and a plateau that is found where it was made."""

import dataclasses
import json
import math
import xml.etree.ElementTree

import pytest
from experiments.learning_curves import (
    curves_plot,
    curves_table,
    describe_plateau,
    find_plateau,
    read_points,
)

SPEED = {"steps_per_second": 10.0, "tokens_per_second": 1100.0, "real_tokens_per_second": 1000.0}


def loss(step, end=17_000):
    """Falls to 6.2 in 2,000 steps, stands there, and falls again from `end` on."""
    early = 3.0 * math.exp(-step / 700)
    late = 1.7 / (1 + math.exp(-(math.log(step / end)) * 9)) if step else 0.0
    return 6.2 + early - late


def write(path, steps, end=17_000, every=500):
    path.mkdir()
    records = [{"step": 0, "val_mlm_cross_entropy": loss(0)}]
    for step in range(every, steps + 1, every):
        held_out = {"val_mlm_cross_entropy": loss(step, end), "val_mlm_accuracy": 0.2, "val_nsp_accuracy": 0.5}
        training = {"mlm_cross_entropy": loss(step, end) - 0.1, "mlm_accuracy": 0.21, "nsp_accuracy": 0.6}
        records.append({"step": step, "seconds": every / 10, **SPEED, **training, **held_out})
    (path / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    return read_points(write(tmp_path_factory.mktemp("runs") / "tiny", 40_000))


def test_tokens_and_hours(points):
    assert (points[0].tokens, points[0].hours) == (0.0, 0.0)
    assert points[-1].step == 40_000 and points[-1].tokens == pytest.approx(4e6)  # 100 real tokens a step
    assert points[-1].hours == pytest.approx(4000 / 3600)


def test_the_plateau_is_where_it_was_made(points):
    start, end = find_plateau(points)
    assert 1_000 <= start.step <= 4_000 and 11_000 <= end.step <= 16_000
    assert 6.0 < end.held_out("mlm_cross_entropy") < 6.2 < start.held_out("mlm_cross_entropy") < 6.6
    text = describe_plateau("tiny", points)
    assert f"(step {start.step:,} to {end.step:,}, until hour {end.hours:.2f})" in text and "loss of 6.1" in text


@pytest.mark.parametrize("steps, end", [(10_000, 17_000), (40_000, 1e9), (500, 100)])
def test_no_plateau_that_ended(tmp_path, steps, end):
    points = read_points(write(tmp_path / "run", steps, end))
    assert find_plateau(points) is None
    assert "no plateau that has ended" in describe_plateau("run", points)


def test_a_run_that_began_as_another_model_has_no_plateau(points):
    as_another = [dataclasses.replace(points[0], scores={"val_mlm_cross_entropy": 6.0}), *points[1:]]
    assert find_plateau(as_another) is None and find_plateau(points[1:]) is not None


def test_table_and_plot(points, tmp_path):
    other = read_points(write(tmp_path / "a<b", 3_000))
    table = curves_table({"tiny": points, "a<b": other}, rows=5).splitlines()
    assert table[0].startswith(
        "| run | step | million tokens | hours | masked-LM loss (nats) | masked-LM accuracy (%) |"
    )
    assert table[2] == "| tiny | 0 | 0.0 | 0.00 | 9.200 |  |  |"
    assert table[6] == f"| tiny | 40,000 | 4.0 | 1.11 | {loss(40_000):.3f} | 20.0 | 50.0 |" and len(table) == 2 + 5 + 4
    drawn = xml.etree.ElementTree.fromstring(curves_plot({"tiny": points, "a<b": other}))
    ids = [element.get("id", "") for element in drawn.iter()]
    curves = [one for one in ids if one.startswith(("val_", "training "))]
    assert len(set(curves)) == len(curves) == 2 * 3 * 2 * 2  # runs, scores, axes, training and held-out
    assert sum(one.startswith("plateau ") for one in ids) == 3 * 2  # the one plateau in each panel
    texts = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert {"a<b", "million tokens", "hours of training", "masked-LM loss (nats)"} <= set(texts)


def test_a_history_without_speeds_has_hours_alone(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1, "seconds": 3600, "val_mlm_cross_entropy": 2.0}\n')
    [point] = points = read_points(path)
    assert (point.tokens, point.hours) == (0.0, 1.0) and find_plateau(points) is None
    assert 'id="val_mlm_cross_entropy hours run"' in curves_plot({"run": points})
    path.write_text("")
    with pytest.raises(ValueError, match="expected a line for each window of training"):
        read_points(path)
