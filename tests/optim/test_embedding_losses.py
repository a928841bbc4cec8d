"""Losses on embeddings against plain NumPy and torch, and on replicas against the whole batch."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.run_python import run_python

from kbert.optim import CosineLoss, MultipleNegativesLoss

B, H = 5, 6
TEMPERATURE = 0.3


@pytest.fixture
def embeddings():
    return np.random.default_rng(3).normal(size=(B * 3, H)).astype("float32")


def reference(embeddings, numbers, temperature, symmetric=False):
    """In float64, one example after the other."""
    vectors = embeddings.astype("float64") / np.linalg.norm(embeddings, axis=1, keepdims=True)
    rows = vectors.reshape(*numbers.shape, -1)

    def find(query, own, number, target, candidates):
        left_out = (number, target, 0)
        scores = [query @ text / temperature for text, n in candidates if n not in left_out] + [
            query @ own / temperature
        ]
        return np.log(np.sum(np.exp(scores))) - scores[-1]

    losses = []
    for example, row in enumerate(numbers):
        others = [(rows[i, k], numbers[i, k]) for i in range(len(numbers)) for k in range(1, numbers.shape[1])]
        candidates = [one for i, one in enumerate(others) if i != example * (numbers.shape[1] - 1)]
        loss = find(rows[example, 0], rows[example, 1], row[0], row[1], candidates)
        if symmetric:
            anchors = [(rows[i, 0], numbers[i, 0]) for i in range(len(numbers)) if i != example]
            loss = (loss + find(rows[example, 1], rows[example, 0], row[1], row[0], anchors)) / 2
        losses.append(loss)
    return losses


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("texts", [2, 3])
def test_the_positive_is_found_among_all_texts(embeddings, texts, symmetric):
    rows = embeddings[: B * texts]
    numbers = 1 + np.arange(B * texts).reshape(B, texts)
    loss = MultipleNegativesLoss(TEMPERATURE, symmetric)(numbers, rows)
    np.testing.assert_allclose(loss, np.mean(reference(rows, numbers, TEMPERATURE, symmetric)), rtol=1e-5)


def test_equal_texts_and_absent_ones_are_no_negatives(embeddings):
    numbers = 1 + np.arange(B * 3).reshape(B, 3)
    numbers[1, 1] = numbers[0, 1]  # two examples with the same positive
    numbers[2, 2] = numbers[3, 0]  # a negative of one is the anchor of another
    numbers[4, 2] = 0  # no negative
    expected = reference(embeddings, numbers, TEMPERATURE, True)
    np.testing.assert_allclose(
        MultipleNegativesLoss(TEMPERATURE, True)(numbers, embeddings), np.mean(expected), rtol=1e-5
    )
    plain = reference(embeddings, 1 + np.arange(B * 3).reshape(B, 3), TEMPERATURE, True)
    assert all(some < other for some, other in zip(expected, plain, strict=True) if some != other) and expected != plain


def test_shorter_embeddings_count_as_much(embeddings):
    numbers = 1 + np.arange(B * 3).reshape(B, 3)
    parts = [np.mean(reference(embeddings[:, :size], numbers, 0.05)) for size in (H, 4, 2)]
    loss = MultipleNegativesLoss(dimensions=(4, 2))
    np.testing.assert_allclose(loss(numbers, embeddings), np.mean(parts), rtol=1e-5)
    assert MultipleNegativesLoss.from_config(loss.get_config()).get_config() == loss.get_config()


def test_weights_and_scores_of_pairs(embeddings):
    pairs, scores = embeddings[: B * 2], np.linspace(0, 1, B).astype("float32")
    unit = pairs.astype("float64") / np.linalg.norm(pairs, axis=1, keepdims=True)
    errors = (np.sum(unit[::2] * unit[1::2], axis=1) - scores) ** 2
    np.testing.assert_allclose(CosineLoss()(scores, pairs), np.mean(errors), rtol=1e-5)
    weights = np.array([1.0, 0.0, 2.0, 0.5, 1.0], "float32")
    np.testing.assert_allclose(CosineLoss()(scores, pairs, weights), np.average(errors, weights=weights), rtol=1e-5)


NUMBERS = 1 + np.arange(B * 3).reshape(B, 3)
ABSENT = NUMBERS.copy()
ABSENT[1, 1], ABSENT[2, 2], ABSENT[4, 2] = ABSENT[0, 1], ABSENT[3, 0], 0  # equal texts, and no negative


@pytest.mark.parametrize(
    "loss, labels",
    [
        (MultipleNegativesLoss(TEMPERATURE, True), ABSENT),
        (MultipleNegativesLoss(TEMPERATURE, dimensions=(4, 2)), NUMBERS),
        (CosineLoss(dimensions=(4,)), np.linspace(0, 1, B).astype("float32")),
    ],
)
def test_gradients_are_the_slopes_of_the_loss(embeddings, loss, labels):
    rows = embeddings if labels.ndim == 2 else embeddings[: B * 2]
    variable, rng, step = tf.Variable(rows), np.random.default_rng(4), 1e-2
    with tf.GradientTape() as tape:
        value = loss(labels, variable)
    gradient = tape.gradient(value, variable).numpy()
    for direction in rng.normal(size=(6, *rows.shape)).astype("float32"):
        slope = (loss(labels, rows + step * direction) - loss(labels, rows - step * direction)) / (2 * step)
        np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-2, atol=2e-3)


@pytest.mark.parity
def test_gradients_are_those_of_torch(embeddings):
    torch = pytest.importorskip("torch")
    numbers = 1 + np.arange(B * 3).reshape(B, 3)
    for symmetric in (False, True):
        variable = tf.Variable(embeddings)
        with tf.GradientTape() as tape:
            loss = MultipleNegativesLoss(TEMPERATURE, symmetric)(numbers, variable)
        other = torch.tensor(embeddings, requires_grad=True)
        rows = torch.nn.functional.normalize(other, dim=1).reshape(B, 3, H)
        candidates = torch.cat([rows[:, 1], rows[:, 2]])
        target = torch.arange(B)
        expected = torch.nn.functional.cross_entropy(rows[:, 0] @ candidates.T / TEMPERATURE, target)
        if symmetric:
            back = torch.nn.functional.cross_entropy(rows[:, 1] @ rows[:, 0].T / TEMPERATURE, target)
            expected = (expected + back) / 2
        expected.backward()
        np.testing.assert_allclose(loss, expected.item(), rtol=1e-5)
        np.testing.assert_allclose(tape.gradient(loss, variable), other.grad.numpy(), atol=1e-6)


REPLICAS = """
import json, sys
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras, kbert
from helpers.tiny_bert import randomise, tiny_config

def train(strategy, micro_batches, run_eagerly=False):
    with strategy.scope():
        config = tiny_config(num_layers=1, hidden_dropout=0.0, attention_dropout=0.0)
        model = randomise(kbert.BertSentenceEncoder(config, symmetric=True), scale=0.3)
        model.compile(keras.optimizers.SGD(0.1), micro_batches=micro_batches, run_eagerly=run_eagerly)
    rng = np.random.default_rng(0)
    ids, numbers = rng.integers(5, 20, (48, 7)).astype("int32"), 1 + np.arange(48).reshape(24, 2)
    rows = tf.data.Dataset.from_tensor_slices(ids).batch(16, drop_remainder=True)
    labels = tf.data.Dataset.from_tensor_slices(numbers).batch(8, drop_remainder=True)
    data = tf.data.Dataset.zip(rows.map(lambda ids: {"token_ids": ids}), labels.map(lambda n: {"embedding": n}))
    history = model.fit(data, epochs=2, shuffle=False, verbose=0).history["loss"]
    return history, [float(np.sum(weight ** 2)) for weight in model.get_weights()]

mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
one = tf.distribute.get_strategy()
ways = {"whole": (one, 1, True), "replicas": (mirrored, 1), "both": (mirrored, 2), "cached": (one, 4)}
print(json.dumps([train(*ways[name]) for name in sys.argv[1:]]))
"""


@pytest.mark.slow  # models/test_sentence_encoder.py, models/test_train_in_parts.py
@pytest.mark.parametrize(
    "ways",
    [("whole", "replicas", "cached"), ("whole", "both")],
)
def test_replicas_and_cached_gradients_train_as_the_whole_batch(ways):
    """Each anchor is compared with the texts of both replicas."""
    (losses, weights), *others = run_python(REPLICAS, *ways, forked=True)
    for other_losses, other_weights in others:
        np.testing.assert_allclose(other_losses, losses, rtol=1e-4)
        np.testing.assert_allclose(other_weights, weights, rtol=2e-3, atol=1e-5)
    assert losses[1] < losses[0]
