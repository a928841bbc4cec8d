"""Which tokens decided an answer: integrated gradients on the token embeddings.

Shapes: n points, S sequence, H hidden.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from kbert.inspection.analysis.attribution_targets import (
    HEADS,
    choose_target,
    explained_heads,
    head_outputs,
    mask_positions,
    to_numpy,
)
from kbert.inspection.analysis.states import TextStates

_STEPS = (16, 32, 64, 128, 256)  # points on the path, until the sum is right
_BATCH = 16  # points at a time


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class IntegratedGradients:
    """Attributions, float64 of the input's shape, and their check.

    `start` and `end` are the outputs at the baseline and at the input. `steps` is the number of
    points at which the gradient was taken.
    """

    attributions: np.ndarray
    start: float
    end: float
    steps: int
    tolerance: float

    @property
    def error(self) -> float:
        """Sum of the attributions minus the difference of the outputs, relative to that difference or 0.01."""
        difference = self.end - self.start
        return abs(float(self.attributions.sum()) - difference) / max(abs(difference), 0.01)

    @property
    def is_complete(self) -> bool:
        return self.error <= self.tolerance


def integrated_gradients(function: Callable, point, baseline, *, tolerance: float = 0.01) -> IntegratedGradients:
    """Integrates the gradient on the straight line from `baseline` to `point` (Gauss-Legendre).

    The number of steps is doubled, from 16 to 256, until the attributions add up within
    `tolerance`. If 256 are too few, `is_complete` is False. `function` maps points [n, ...], n at
    most 16, to (outputs [n], gradients [n, ...]), NumPy arrays.

    Source: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks". Proposition 1 is
    completeness.
    """
    point, baseline = np.asarray(point), np.asarray(baseline)
    if point.shape != baseline.shape:
        raise ValueError(
            f"integrated_gradients: `baseline` must have the shape of `point`, {point.shape}. "
            f"Received: {baseline.shape}"
        )
    (start, end), _ = function(np.stack([baseline, point]))
    for steps in _STEPS:
        places, weights = np.polynomial.legendre.leggauss(steps)
        places, weights = (places + 1) / 2, weights / 2  # from [-1, 1] to [0, 1]
        mean = np.zeros(point.shape)
        for first in range(0, steps, _BATCH):
            batch = slice(first, first + _BATCH)
            where = places[batch].reshape(-1, *[1] * point.ndim)
            _, gradients = function((baseline + where * (point - baseline)).astype(point.dtype))
            mean += np.tensordot(weights[batch], np.asarray(gradients, "float64"), axes=1)
        result = IntegratedGradients(mean * (point - baseline), float(start), float(end), steps, tolerance)
        if result.is_complete:
            break
    return result


BASELINES = ("[MASK]", "[PAD]", "[UNK]", "zero")
_SPECIAL = ("[CLS]", "[SEP]")  # equal in text and baseline, so they get no attribution


@dataclasses.dataclass(frozen=True, eq=False)
class TokenAttributions:
    """What each token of a text contributes to an answer.

    Attributes:
        target: description of the number that is explained.
        attributions: of each token; above 0: it speaks for the answer.
        start, end: the number for the baseline and for the text.
        error: how far the attributions are from adding up to ``end - start``, as a share of it.
        is_complete: whether the error is within the tolerance.
    """

    tokens: list[str]
    target: str
    attributions: list[float]
    start: float
    end: float
    error: float
    is_complete: bool
    steps: int

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def token_attributions(
    model, tokenizer, states: TextStates, *, labels=None, baseline: str = "[MASK]", tolerance: float = 0.01
) -> TokenAttributions | None:
    """Explains a model's answer to a text by its tokens; None if the model gives no answer to it.

    The path leads from the embeddings of the baseline's token, everywhere but at [CLS] and [SEP],
    to the embeddings of the text's tokens. Positions and segments stay. A token's attribution is
    the sum over its vector.
    """
    if baseline not in BASELINES:
        raise ValueError(f"token_attributions: `baseline` must be one of {BASELINES}. Received: {baseline!r}")
    if not explained_heads(model):
        raise ValueError(
            f"token_attributions: expected a model with a head of {sorted(HEADS)}. "
            f"Received: one of the task {model.task!r}"
        )
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "token_attributions: expected Keras' TensorFlow backend, whose gradients it takes. Received: "
            f"{keras.backend.backend()!r}"
        )
    run = answer_from_vectors(model, states)
    table = keras.ops.convert_to_numpy(model.encoder.token_embedding.embeddings).astype("float32")
    vectors = table[states.token_ids]  # [S, H]
    outputs = to_numpy(run(vectors[np.newaxis]))
    names = tokenizer.vocabulary if "mlm_logits" in outputs else labels
    target = choose_target(model, states, outputs, names)
    if target is None:
        return None
    start = 0.0 * vectors if baseline == "zero" else table[tokenizer.token_to_id(baseline)]
    fixed = np.array([token in _SPECIAL for token in states.tokens])[:, np.newaxis]
    explained = integrated_gradients(
        _value_and_gradient(run, target), vectors, np.where(fixed, vectors, start), tolerance=tolerance
    )
    return TokenAttributions(
        states.tokens,
        target.description,
        explained.attributions.sum(axis=-1).tolist(),
        explained.start,
        explained.end,
        explained.error,
        explained.is_complete,
        explained.steps,
    )


def answer_from_vectors(model, states: TextStates):
    """A function of token vectors [n, S, H], in place of the text's, to the model's outputs by name."""
    encoder = model.encoder.with_parts(None)
    batch, masks = states.batch, mask_positions(states, encoder.config.causal)

    def run(vectors):
        segments, padding_mask, places = (
            np.repeat(value, vectors.shape[0], axis=0) for value in (batch["segment_ids"], batch["padding_mask"], masks)
        )
        x = encoder.embeddings.combine(vectors, segments)  # [n, S, H]
        bias = encoder.attention_bias(padding_mask)
        for block in encoder.blocks:
            x = block(x, bias, training=False)
        pooled = None if encoder.pooler is None else encoder.pooler(x, padding_mask=padding_mask)
        return head_outputs(model, x, pooled, places)

    return run


def _value_and_gradient(run, target):
    import tensorflow as tf

    def value_and_gradient(points):
        points = tf.constant(points, tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(points)
            values = tf.cast(target.read(run(points)), tf.float32)  # [n], each a function of its own point
        return values.numpy(), tape.gradient(values, points).numpy()

    return value_and_gradient
