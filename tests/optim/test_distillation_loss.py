"""The loss of a student and its gradient against torch, for each kind of labels; labels that are missing; parts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kbert.optim import ClassificationLoss, DistillationLoss, MultiLabelLoss, RegressionLoss, SpanLoss

torch = pytest.importorskip("torch")
functional = pytest.importorskip("torch.nn.functional")
pytestmark = pytest.mark.parity

T, FRACTION = 3.0, 0.3
B, S, N = 4, 5, 3
RANDOM = np.random.default_rng(1)
OUTPUTS, TEACHER = (RANDOM.normal(size=(B, S, N)).astype("float32") for _ in range(2))
WEIGHTS = np.array([1, 2, 0, 0.5], "float32")
MISSING = 1  # the row without a label


def kl(teacher, outputs):
    teacher, outputs = functional.log_softmax(teacher / T, -1), functional.log_softmax(outputs / T, -1)
    return T**2 * functional.kl_div(outputs, teacher, log_target=True, reduction="none").sum(-1)


def classes(outputs, teacher):
    labels = torch.tensor([2, 0, 1, 1])
    return functional.cross_entropy(outputs, labels, reduction="none"), kl(teacher, outputs), labels[:, None]


def tags(outputs, teacher):
    labels = torch.tensor(RANDOM.integers(0, N, (B, S)))
    hard = functional.cross_entropy(outputs.reshape(-1, N), labels.reshape(-1), reduction="none").reshape(B, S)
    return hard, kl(teacher, outputs), labels[..., None]


def multi(outputs, teacher):
    labels = torch.tensor(RANDOM.integers(0, 2, (B, N)))
    hard = functional.binary_cross_entropy_with_logits(outputs, labels.float(), reduction="none")
    both = (torch.stack([logits, torch.zeros_like(logits)], -1) for logits in (teacher, outputs))
    return hard, kl(*both), labels  # of two classes, on or off


def scores(outputs, teacher):
    labels = torch.tensor(RANDOM.normal(size=B))
    return (outputs - labels) ** 2, (outputs - teacher) ** 2, labels[:, None]


def spans(outputs, teacher):
    lengths = torch.tensor([5, 3, 4, 5])
    is_padding = torch.arange(S) >= lengths[:, None]
    outputs, teacher = (logits.masked_fill(is_padding, -1e9) for logits in (outputs, teacher))
    labels = torch.tensor([4, 0, 2, 1])
    hard = functional.cross_entropy(outputs, labels, reduction="none")
    return hard / 2, kl(teacher, outputs) / 2, torch.stack([labels, lengths], 1)


KINDS = {
    "classes": (ClassificationLoss, classes, (slice(None), 0)),
    "tags": (ClassificationLoss, tags, slice(None)),
    "multi": (MultiLabelLoss, multi, (slice(None), 0)),
    "scores": (RegressionLoss, scores, (slice(None), 0, 0)),
    "spans": (SpanLoss, spans, (..., 0)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_are_those_of_torch(kind):
    loss, reference, part = KINDS[kind]
    outputs = torch.tensor(OUTPUTS[part], requires_grad=True)
    hard, soft, labels = reference(outputs, torch.tensor(TEACHER[part]))
    answers = TEACHER[part].reshape(*labels.shape[:-1], -1)
    targets = np.concatenate([labels.numpy().astype("float32"), answers], -1)
    targets[MISSING, ..., 0] = np.nan
    is_labelled = (torch.arange(B) != MISSING).reshape(-1, *[1] * (hard.ndim - 1))
    values = FRACTION * torch.where(is_labelled, hard, 0) + (1 - FRACTION) * soft
    weights = torch.tensor(WEIGHTS).reshape(-1, *[1] * (hard.ndim - 1)).expand(hard.shape)
    expected = (values * weights).sum() / weights.sum()
    expected.backward()
    student = tf.Variable(OUTPUTS[part])
    distillation = DistillationLoss(loss(), T, FRACTION)
    distillation = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(distillation))
    with tf.GradientTape() as tape:
        value = distillation(targets, student, WEIGHTS)
    np.testing.assert_allclose(value, expected.item(), rtol=2e-5)
    np.testing.assert_allclose(tape.gradient(value, student), outputs.grad.numpy(), atol=2e-6)
    assert float(distillation.total_weight(tf.constant(targets), WEIGHTS)) == pytest.approx(weights.sum().item())


def test_labels_alone_and_answers_alone():
    targets = np.concatenate([[[2], [0], [1], [1]], TEACHER[:, 0]], 1).astype("float32")
    labels = DistillationLoss(ClassificationLoss(), T, 1.0)(targets, OUTPUTS[:, 0])
    np.testing.assert_allclose(labels, ClassificationLoss()(targets[:, 0], OUTPUTS[:, 0]), rtol=1e-6)
    answers = DistillationLoss(ClassificationLoss(), T, 0.0)
    assert float(answers(targets, TEACHER[:, 0])) == pytest.approx(0, abs=1e-6)
    assert float(answers(targets, OUTPUTS[:, 0])) > 0.1


def test_a_trimmed_row_of_spans_reads_the_first_answers():
    targets = np.concatenate([[[1, 3]] * B, TEACHER[..., 0]], 1).astype("float32")
    loss = DistillationLoss(SpanLoss(), T, FRACTION)
    np.testing.assert_allclose(loss(targets, OUTPUTS[:, :3, 0]), loss(targets, OUTPUTS[..., 0]), rtol=1e-6)
