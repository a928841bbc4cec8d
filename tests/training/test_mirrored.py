"""Two replicas train, evaluate and predict as one device does (dropout 0)."""

import json

import numpy as np
import pytest
from helpers.forked_python import ForkedPython
from helpers.paths import ROOT

PROGRAM = ROOT / "tests" / "helpers" / "replicas_run.py"


def run_both(tmp_path_factory, *part):
    """What helpers/replicas_run.py found, by strategy; both processes run at once."""
    outputs = {strategy: tmp_path_factory.mktemp(strategy) for strategy in ("one", "mirrored")}
    processes = [ForkedPython(PROGRAM, strategy, output, *part) for strategy, output in outputs.items()]
    return {strategy: finish(one, outputs[strategy]) for strategy, one in zip(outputs, processes, strict=True)}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run_both(tmp_path_factory)


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    return run_both(tmp_path_factory, "classification")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The same of two replicas with XLA, in parts and in half precision."""
    output = tmp_path_factory.mktemp("compiled")
    return finish(ForkedPython(PROGRAM, "mirrored", output, "compiled"), output)


def finish(process, output):
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return json.loads((output / "result.json").read_text())


def assert_close(found, expected, tolerance=1e-5):
    """Lists and dicts of numbers, nested; times are left out."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected.keys() - {"seconds", "steps_per_second", "tokens_per_second"}:
            assert_close(found[name], expected[name], tolerance)
    elif isinstance(expected, list) and expected and isinstance(expected[0], dict):
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, tolerance)
    else:
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_there_are_two_replicas(results):
    assert results["one"]["replicas"] == 1
    assert results["mirrored"]["replicas"] == 2
    assert "strategy mirrored: 2 replicas on CPU devices (asked for)" in results["mirrored"]["description"]


@pytest.mark.parametrize("part", ["history", "evaluation", "weights", "norms"])
def test_pretraining_is_that_of_one_device(results, part):
    assert_close(results["mirrored"]["pretraining"][part], results["one"]["pretraining"][part])


def test_pretraining_learned_and_was_validated(results):
    history = results["mirrored"]["pretraining"]["history"]
    assert [record["step"] for record in history] == [5, 7]
    assert history[-1]["loss"] < history[0]["loss"]
    assert all("val_mlm_perplexity" in record and record["gradient_norm"] > 0 for record in history)


@pytest.mark.slow  # a pre-training: above; replicas with unequal numbers of rows: models/test_train_in_parts.py
@pytest.mark.parametrize("part", ["history", "evaluation", "weights", "prediction"])
def test_classification_with_an_uneven_last_batch_is_that_of_one_device(classified, part):
    """Clipped on every step (the threshold is low), so this is the clipping after the sum over replicas as well."""
    assert_close(classified["mirrored"]["classification"][part], classified["one"]["classification"][part])


@pytest.mark.slow  # on one device: test_divergence.py
def test_mixed_float16_trains(compiled):
    result = compiled["half_precision"]
    assert result["optimizer"] == "LossScaleOptimizer"
    assert np.isfinite(result["loss"]) and result["least_moved"] > 0


def test_replica_scope_clips_each_replicas_own_gradient_and_sums(results):
    def update(gradient):  # the first of Adam: m = 0.1 g, v = 0.001 g^2
        return -0.01 * 0.1 * gradient / (np.sqrt(0.001 * gradient**2) + 1e-6)

    one, two = np.array([3.0, 4.0]) / 5, np.array([4.0, 4.0]) / np.sqrt(32)
    np.testing.assert_allclose(results["one"]["replica_clipped"]["weight"], update(one), rtol=1e-5)
    np.testing.assert_allclose(results["mirrored"]["replica_clipped"]["weight"], update(one + two), rtol=1e-5)
    np.testing.assert_allclose(results["mirrored"]["replica_clipped"]["norm"], 5.0, rtol=1e-6)  # of the first replica


def test_checkpoints_reach_every_replica(results):
    assert results["mirrored"]["checkpoint"] == {"step": 3, "difference": 0.0}
