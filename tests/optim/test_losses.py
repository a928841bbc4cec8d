"""Every loss against its formula in NumPy, by itself and as `model.fit` reports it and trains on it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kbert.optim import cross_entropy as cross_entropy_module
from kbert.optim.cross_entropy import check_labels, cross_entropy
from kbert.optim.losses import (
    ClassificationLoss,
    MaskedLanguageModelLoss,
    NextSentenceLoss,
    RegressionLoss,
    SpanLoss,
)
from kbert.optim.metrics import CrossEntropy, Perplexity, SpanAccuracy, WeightedAccuracy

B, P, V = 5, 3, 11


def nll(labels, logits):
    logits = np.asarray(logits, "float64")
    log_normaliser = np.log(np.sum(np.exp(logits), axis=-1))
    return log_normaliser - np.take_along_axis(logits, np.asarray(labels)[..., None], axis=-1)[..., 0]


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def test_masked_lm_is_the_papers_ratio(rng):
    logits, labels = rng.normal(size=(B, P, V)).astype("float32"), rng.integers(0, V, (B, P))
    weights = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0], [1, 0, 0]], "float32")
    expected = np.sum(weights * nll(labels, logits)) / (weights.sum() + 1e-5)
    np.testing.assert_allclose(float(MaskedLanguageModelLoss()(labels, logits, weights)), expected, rtol=1e-6)
    few = np.zeros((B, P), "float32")
    few[0, 0] = 1e-5  # where the 1e-5 below the line shows
    np.testing.assert_allclose(
        float(MaskedLanguageModelLoss()(labels, logits, few)), 0.5 * nll(labels, logits)[0, 0], rtol=1e-5
    )
    assert float(MaskedLanguageModelLoss()(labels, logits, 0 * weights)) == 0.0


@pytest.mark.parametrize("loss_class", [ClassificationLoss, NextSentenceLoss])
@pytest.mark.parametrize("shape", [(B,), (B, P)])
def test_classification_is_the_mean(rng, loss_class, shape):
    logits, labels = rng.normal(size=(*shape, 2)).astype("float32"), rng.integers(0, 2, shape)
    np.testing.assert_allclose(float(loss_class()(labels, logits)), np.mean(nll(labels, logits)), rtol=1e-6)
    weights = rng.uniform(size=shape)
    np.testing.assert_allclose(
        float(loss_class()(labels, logits, weights)), np.average(nll(labels, logits), weights=weights), rtol=1e-6
    )
    np.testing.assert_allclose(float(loss_class()(labels[..., None], logits)), np.mean(nll(labels, logits)), rtol=1e-6)


def test_the_label_minus_one_is_left_out(rng):
    logits = rng.normal(size=(B, P, V)).astype("float32")
    labels = rng.integers(0, V, (B, P))
    marked = labels.copy()
    marked[0, 1] = marked[2, 2] = marked[4] = -1
    kept = np.ones((B, P), bool)
    kept[0, 1] = kept[2, 2] = kept[4] = False
    variable = tf.Variable(logits)
    with tf.GradientTape() as tape:
        loss = ClassificationLoss()(marked, variable)
    np.testing.assert_allclose(float(loss), np.mean(nll(labels, logits)[kept]), rtol=1e-6)
    gradient = tape.gradient(loss, variable).numpy()
    assert np.all(gradient[~kept] == 0.0) and np.all(np.any(gradient[kept] != 0.0, axis=-1))
    assert float(ClassificationLoss()(np.full((B, P), -1), logits)) == 0.0


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "uint16", "uint64", "float32", "float64", "bool"])
def test_labels_of_any_type_and_none_outside_the_range(rng, kind):
    logits, labels = rng.normal(size=(B, V)).astype("float32"), (np.arange(B) % 2).astype(kind)
    expected = np.mean(nll(labels.astype("int32"), logits))
    np.testing.assert_allclose(float(ClassificationLoss()(labels, logits)), expected, rtol=1e-6)
    if kind != "bool":
        for wrong in (2**32, V) if kind in ("int64", "uint64") else (V,):  # 2**32 is 0 where it is cut to 32 bits
            labels[1] = wrong
            assert np.isnan(ClassificationLoss()(labels, logits))
        weights = np.arange(B) != 1  # a label of weight 0 may be anything
        kept = np.mean(nll(np.arange(B) % 2, logits)[weights])
        np.testing.assert_allclose(float(ClassificationLoss()(labels, logits, weights)), kept, rtol=1e-6)


@pytest.mark.parametrize("wrong", [V, -2, -100, 2**31 - 1, 0.5, np.nan])
def test_any_other_label_makes_the_loss_nan_and_harms_no_weight(rng, wrong):
    logits, labels = tf.Variable(rng.normal(size=(B, P, V)).astype("float32")), rng.integers(0, V, (B, P)) * 1.0
    labels[2, 1] = wrong
    with tf.GradientTape() as tape:
        loss = ClassificationLoss()(labels, logits)
    assert np.isnan(loss) and np.all(np.isfinite(tape.gradient(loss, logits)))
    assert np.isnan(RegressionLoss()(np.array([0.0, np.nan]), np.zeros(2)))


def test_one_weight_per_row_reaches_all_its_labels(rng):
    logits, labels = rng.normal(size=(B, P, V)).astype("float32"), rng.integers(0, V, (B, P))
    weights = np.array([1.0, 0.0, 2.0, 0.0, 1.0])
    expected = np.average(nll(labels, logits), weights=np.repeat(weights[:, None], P, axis=1))
    np.testing.assert_allclose(float(ClassificationLoss()(labels, logits, weights)), expected, rtol=1e-6)


def test_spans_add_up_to_the_mean_of_both_ends(rng):
    starts, ends = rng.normal(size=(2, B, 7)).astype("float32")
    first, last = rng.integers(0, 7, (2, B))
    expected = (np.mean(nll(first, starts)) + np.mean(nll(last, ends))) / 2
    np.testing.assert_allclose(float(SpanLoss()(first, starts)) + float(SpanLoss()(last, ends)), expected, rtol=1e-6)


def test_regression_is_the_mean_squared_error(rng):
    labels, scores = rng.normal(size=(2, B))
    np.testing.assert_allclose(float(RegressionLoss()(labels, scores)), np.mean((labels - scores) ** 2), rtol=1e-6)
    np.testing.assert_allclose(
        float(RegressionLoss()(labels[:, None], scores)), np.mean((labels - scores) ** 2), rtol=1e-6
    )


@pytest.mark.parametrize(
    "dtype, jit_compile",
    [
        ("float32", False),
        ("bfloat16", True),
        pytest.param("float32", True, marks=pytest.mark.slow),
        pytest.param("bfloat16", False, marks=pytest.mark.slow),
    ],
)
def test_the_compiled_cross_entropy_of_a_vocabulary_equals_the_plain_one(monkeypatch, rng, dtype, jit_compile):
    logits = tf.cast(4.0 * rng.normal(size=(2, 66, 1024)), dtype)
    labels, weights = rng.integers(-1, 1024, (2, 66)), rng.uniform(size=(2, 66)).astype("float32")
    labels[0, :2], labels[1, :2] = -1, 1024  # none, and a wrong one
    calls, compiled, threshold = [], cross_entropy_module._compiled_nll, cross_entropy_module._COMPILED_FROM
    monkeypatch.setattr(cross_entropy_module, "_compiled_nll", lambda *given: calls.append(1) or compiled(*given))

    def run(threshold):
        monkeypatch.setattr(cross_entropy_module, "_COMPILED_FROM", threshold)

        @tf.function(jit_compile=jit_compile)
        def step(logits):
            with tf.GradientTape() as tape:
                tape.watch(logits)
                values, kept = cross_entropy(labels, logits, weights)
                loss = tf.reduce_sum(tf.where(kept > 0, values, 0.0) * kept)
            return values, tape.gradient(loss, logits)

        return [tf.cast(value, "float32").numpy() for value in step(logits)]

    plain_values, plain_gradient = run(2**30)
    assert not calls
    values, gradient = run(threshold)
    assert calls
    np.testing.assert_allclose(values, plain_values, rtol=1e-6, atol=1e-6)  # NaN in the same places
    np.testing.assert_allclose(gradient, plain_gradient, rtol=1e-5 if dtype == "float32" else 1e-2, atol=1e-7)


@pytest.mark.parametrize("shape", [(400, 1000), (3, 20, 1024), (None, 30, None)])
def test_few_classes_and_few_logits_are_not_compiled(monkeypatch, shape):
    monkeypatch.setattr(cross_entropy_module, "_compiled_nll", lambda *given: pytest.fail("compiled"))
    step = tf.function(lambda labels, logits: cross_entropy(labels, logits)[0])
    specs = tf.TensorSpec(shape[:-1], "int32"), tf.TensorSpec(shape, "float32")
    assert step.get_concrete_function(*specs).output_shapes.as_list() == list(shape[:-1])


def test_half_precision_logits_are_summed_in_float32(rng):
    logits = tf.cast(rng.normal(size=(2000, V)) * 5, "bfloat16")
    labels = rng.integers(0, V, 2000)
    loss = ClassificationLoss()(labels, logits)
    assert loss.dtype == "float32"
    np.testing.assert_allclose(float(loss), np.mean(nll(labels, tf.cast(logits, "float32").numpy())), rtol=1e-6)


def test_fit_reports_and_descends_the_formula(rng):
    """One step of plain gradient descent: the reported losses and the weights equal NumPy's."""
    x = rng.normal(size=(B, 4)).astype("float32")
    labels = {"mlm_logits": rng.integers(0, V, (B, P)), "nsp_logits": rng.integers(0, 2, B)}
    weights = {"mlm_logits": rng.integers(0, 2, (B, P)).astype("float32"), "nsp_logits": np.ones(B, "float32")}
    inputs = keras.Input((4,))
    tokens = keras.layers.Reshape((P, V))(keras.layers.Dense(P * V, use_bias=False, name="tokens")(inputs))
    pair = keras.layers.Dense(2, use_bias=False, name="pair")(inputs)
    model = keras.Model(inputs, {"mlm_logits": tokens, "nsp_logits": pair})
    losses = {"mlm_logits": MaskedLanguageModelLoss(), "nsp_logits": NextSentenceLoss()}
    metrics = {"mlm_logits": [CrossEntropy(), Perplexity(), WeightedAccuracy()], "nsp_logits": [WeightedAccuracy()]}
    model.compile(keras.optimizers.SGD(0.5), losses, weighted_metrics=metrics)
    before = [w.astype("float64") for w in model.get_weights()]
    logits = (x @ before[0]).reshape(B, P, V), x @ before[1]
    history = model.fit(x, labels, sample_weight=weights, batch_size=B, verbose=0).history
    mlm = np.sum(weights["mlm_logits"] * nll(labels["mlm_logits"], logits[0])) / (weights["mlm_logits"].sum() + 1e-5)
    nsp = np.mean(nll(labels["nsp_logits"], logits[1]))
    np.testing.assert_allclose(history["mlm_logits_loss"], [mlm], rtol=1e-5)
    np.testing.assert_allclose(history["nsp_logits_loss"], [nsp], rtol=1e-5)
    np.testing.assert_allclose(history["loss"], [mlm + nsp], rtol=1e-5)
    softmax = [np.exp(z) / np.exp(z).sum(-1, keepdims=True) for z in logits]
    d_mlm = softmax[0] - np.eye(V)[labels["mlm_logits"]]
    d_mlm *= (weights["mlm_logits"] / (weights["mlm_logits"].sum() + 1e-5))[..., None]
    d_nsp = (softmax[1] - np.eye(2)[labels["nsp_logits"]]) / B
    after = model.get_weights()
    np.testing.assert_allclose(after[0], before[0] - 0.5 * x.T @ d_mlm.reshape(B, -1), atol=1e-6)
    np.testing.assert_allclose(after[1], before[1] - 0.5 * x.T @ d_nsp, atol=1e-6)


def test_check_labels():
    check_labels(np.array([0, 2, 1]), 3)
    with pytest.raises(ValueError, match=r"\[0, 3\).*Received: \[-1, 3\] among 2"):
        check_labels(np.array([0, 3, -1]), 3)
    with pytest.raises(ValueError, match="integers"):
        check_labels(np.array([0.0, 1.0]), 3)


def test_lists_are_arrays():
    labels, logits, expected = [1, 0], [[0.0, 1.0], [0.0, 2.0]], np.log1p(np.exp([-1.0, 2.0])).mean()
    for loss in (ClassificationLoss(), NextSentenceLoss(), SpanLoss()):
        assert float(loss(labels, logits)) == pytest.approx(expected / (2 if isinstance(loss, SpanLoss) else 1))
    for metric in (WeightedAccuracy(), SpanAccuracy()):
        metric.update_state(labels, logits)
        assert float(metric.result()) == 0.5


def test_span_loss_and_accuracy_leave_padding_out_where_lengths_are_given():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, [5, 9]).astype("float32")
    lengths, positions = np.array([9, 4, 2, 7, 9]), np.array([8, 0, 1, 3, 2])
    expected = [np.log(np.exp(row[:n]).sum()) - row[p] for row, n, p in zip(logits, lengths, positions, strict=True)]
    labels = np.stack([positions, lengths], 1)
    assert float(SpanLoss()(labels, logits)) == pytest.approx(np.mean(expected) / 2, rel=1e-6)
    longer = np.concatenate([logits, rng.normal(9, 3, [5, 4]).astype("float32")], 1)  # padded further: the same
    assert float(SpanLoss()(labels, longer)) == pytest.approx(np.mean(expected) / 2, rel=1e-6)
    accuracy = SpanAccuracy()
    accuracy.update_state(labels, longer)
    hits = [row[:n].argmax() == p for row, n, p in zip(logits, lengths, positions, strict=True)]
    assert float(accuracy.result()) == pytest.approx(np.mean(hits))
