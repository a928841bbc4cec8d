"""What a pre-training is refused for before anything is written."""

import dataclasses
import types

import pytest
from helpers.pretraining_fields import pretraining_fields, pretraining_settings
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.pretraining.run import run_pretraining as module
from kbert.pretraining.run.run_pretraining import check_run
from kbert.training.hardware import Hardware

ONE = Hardware(object(), "one", 1, "float32", False, ())
TWO = Hardware(object(), "mirrored", 2, "float32", False, ())
JAX = Hardware(None, "mirrored", 2, "float32", True, ())


def settings_of(**given):
    return pretraining_settings(**pretraining_fields(steps=1000) | given)


def test_what_goes_together():
    check_run(settings_of(), TWO, 100, None)
    check_run(settings_of(accumulate=4, steps_per_execution=5), ONE, 50, None)
    check_run(settings_of(accumulate=4), TWO, 100, None)
    check_run(settings_of(steps=None, hours=1.0), TWO, 100, None)


def test_what_does_not():
    def check(run):
        options, *hardware_and_service = run
        check_run(settings_of(**options), hardware_and_service[0], 100, *hardware_and_service[1:])

    several = dataclasses.replace(TWO, name="multiworker")
    wrong_inputs(
        check,
        (({"accumulate": 3, "batch_size": 9}, TWO, None), r"multiple of `accumulate`, 3 times the 2 rep.*: \[9\]"),
        (({"steps_per_execution": 8}, ONE, None), "--log-every .*of --steps-per-execution. Received: 100 and 8"),
        (({}, ONE, "host:1"), "makes rows of records. Received: data_service, and text"),
        (({"steps": None, "hours": 1.0}, several, None), "`hours` works on one machine only"),
    )


def test_on_jax_all_batches_are_checked_and_the_clock_is_refused(monkeypatch):
    asked = []
    monkeypatch.setattr(module, "check_divides", asked.append)
    check_run(settings_of(batch_size=20, batch_size_ramp="8:0.5"), JAX, 100, None)
    assert set(asked) == {8, 16, 20}
    monkeypatch.setattr(module.keras, "backend", types.SimpleNamespace(backend=lambda: "jax"))
    with pytest.raises(ValueError, match="needs the TensorFlow backend.*Received: the backend jax"):
        check_run(settings_of(steps=None, hours=1.0), JAX, 100, None)
    with pytest.raises(ValueError, match=r"multiple of `accumulate`, 2 times the 2 replicas. Received: \[6\]"):
        check_run(settings_of(accumulate=2, batch_size=6), JAX, 100, None)


def test_nothing_is_left_behind(tmp_path):
    with pytest.raises(ValueError, match="--steps-per-execution"):
        kbert.pretrain("a.txt", vocabulary="vocab.txt", steps=8, steps_per_execution=8, output=tmp_path / "run")
    with pytest.raises(ValueError, match="`xla` must be one of .* Received: 'maybe'"):
        kbert.pretrain("a.txt", vocabulary="vocab.txt", steps=8, xla="maybe", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
