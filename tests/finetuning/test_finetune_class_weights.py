"""kbert.finetune: factors of classes."""

import numpy as np
import pytest
from helpers.run_recipe import read_json
from helpers.tiny_finetuning import NO_DEV, ROWS, TASK, prepare
from helpers.wrong_values import wrong_inputs

import kbert


def test_balanced_classes_weigh_the_same(init):
    from kbert.tasks.training_data import class_weights

    work = prepare(init, TASK, ROWS, **NO_DEV)
    factors = class_weights("balanced", work.pipeline, work.train)
    sums = [factors[work.train.labels == n].sum() for n in (0, 1)]
    assert sums == pytest.approx([15, 15])
    _, _, given = next(
        iter(
            work.task.training_data(
                work.pipeline, work.train, class_weight="balanced", batch_size=30, padding="longest"
            ).make_dataset()
        )
    )
    assert sorted(given["logits"].numpy().tolist()) == pytest.approx(sorted(factors.tolist()))


def test_a_wrong_class_weight_leaves_nothing_behind(init, tmp_path):
    wrong_inputs(
        lambda wrong: kbert.finetune(init, TASK, ROWS, output=tmp_path / "run", class_weight=wrong, **NO_DEV),
        ({"fine": 2.0}, r"for the labels \['bad', 'good'\], or the classes 0 to 1. Received: 'fine'"),
        ("balance", "`class_weight` must be 'balanced', a dict or None. Received: 'balance'"),
        ({"good": -1.0}, "expected `class_weight` of at least 0 for 'good'. Received: -1.0"),
        ({"good": float("nan")}, "expected `class_weight` of at least 0 for 'good'. Received: nan"),
    )
    assert not (tmp_path / "run").exists()


def test_keys_and_factors_of_class_weights_are_those_of_a_pipeline(init, tmp_path):
    stars = [(text, {"good": "2", "bad": "1"}[label]) for text, label in ROWS]
    expected = r"finetune: expected strings as keys of `class_weight`.*the label '1'; write \{\"1\": 5\.0\}"
    with pytest.raises(ValueError, match=expected):
        prepare(init, TASK, stars, class_weight={1: 5.0}, **NO_DEV)
    work = prepare(init, TASK, stars, output=tmp_path / "run", class_weight={"1": np.float32(5.0)}, **NO_DEV)
    work.open()
    assert read_json(tmp_path / "run" / "settings.json")["class_weight"] == {"1": 5.0}
    regression = kbert.tasks.Regression()
    with pytest.raises(ValueError, match="`class_weight` is for models with labels. Received: 'balanced'"):
        prepare(init, regression, [(text, "1.5") for text, _ in ROWS], class_weight="balanced", **NO_DEV)
