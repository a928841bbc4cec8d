"""The metrics against NumPy over several batches of unequal size."""

import numpy as np
import pytest

from kbert.optim.metrics import (
    CrossEntropy,
    MultiLabelAccuracy,
    Perplexity,
    SpanAccuracy,
    SquaredError,
    WeightedAccuracy,
)

V = 7


def batches(rng):
    for rows in (5, 3, 1):
        logits = rng.normal(size=(rows, 4, V)).astype("float32")
        yield rng.integers(-1, V, (rows, 4)), logits, rng.integers(0, 2, (rows, 4)).astype("float32")


def expected(rng):
    nll, hits, weights = [], [], []
    for labels, logits, weight in batches(rng):
        kept = (weight > 0) & (labels >= 0)
        logits, labels = logits[kept].astype("float64"), labels[kept]
        nll.append(np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(labels)), labels])
        hits.append(logits.argmax(-1) == labels)
        weights.append(weight[kept])
    return np.concatenate(nll).mean(), np.concatenate(hits).mean()


@pytest.mark.parametrize(
    "metric, of",
    [
        (CrossEntropy, lambda nll, hits: nll),
        (Perplexity, lambda nll, hits: np.exp(nll)),
        (WeightedAccuracy, lambda nll, hits: hits),
    ],
)
def test_over_all_labels_seen(metric, of):
    metric = metric()
    assert float(metric.result()) == 0.0
    for batch in batches(np.random.default_rng(2)):
        metric.update_state(*batch)
    np.testing.assert_allclose(float(metric.result()), of(*expected(np.random.default_rng(2))), rtol=1e-6)
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_squared_error():
    metric = SquaredError()
    metric.update_state(np.array([1.0, 2.0]), np.array([1.5, 4.0]), np.array([1.0, 3.0]))
    np.testing.assert_allclose(float(metric.result()), (0.25 + 3 * 4.0) / 4)


def test_callbacks_are_told_which_metrics_should_rise():
    for metric in (WeightedAccuracy, SpanAccuracy, MultiLabelAccuracy):
        assert metric()._direction == "up"
    for metric in (CrossEntropy, Perplexity, SquaredError):
        assert metric()._direction == "down"
