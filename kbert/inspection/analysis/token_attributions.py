"""Which tokens decided an answer: integrated gradients on the token embeddings.

Shapes: n points, S sequence, H hidden.
"""

import dataclasses
from typing import Any

import keras
import numpy as np

from kbert.inspection.analysis.attribution_targets import (
    ATTRIBUTED,
    choose_target,
    head_outputs,
    mask_positions,
    to_numpy,
)
from kbert.inspection.analysis.integrated_gradients import integrated_gradients
from kbert.inspection.analysis.text_states import TextStates

BASELINES = ("[MASK]", "[PAD]", "[UNK]", "zero")
_SPECIAL = ("[CLS]", "[SEP]")  # the same in text and baseline: they get nothing


@dataclasses.dataclass(frozen=True, eq=False)
class TokenAttributions:
    """What each token of a text contributes to an answer.

    Attributes:
        tokens: word pieces of the text.
        target: what the number is that is explained.
        attributions: of each token; above 0: it speaks for the answer.
        start, end: the number for the baseline and for the text.
        error: how far the attributions are from adding up to ``end - start``, as a share of it.
        is_complete: whether that is within the tolerance.
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
        """All of it, for JSON."""
        return dataclasses.asdict(self)


def token_attributions(
    model, tokenizer, states: TextStates, *, labels=None, baseline: str = "[MASK]", tolerance: float = 0.01
) -> TokenAttributions | None:
    """Explains the answer of a model to a text by its tokens.

    The path leads from the embeddings of the baseline's token, at every place but [CLS] and [SEP], to those of the
    text's tokens; positions and segments stay. A token's attribution is the sum over its vector.

    Args:
        model: of one of the tasks of `ATTRIBUTED`: a classifier, regressor, span extractor, tagger, or one with a
            masked-LM or next-sentence head.
        states: of the text, by `text_states`.
        labels: names of the model's labels.
        baseline: one of `BASELINES`.
        tolerance: of completeness; more steps are taken until it is reached.

    Returns:
        `TokenAttributions`, or None if the model gives no answer to this text.

    Raises:
        RuntimeError: the Keras backend is not TensorFlow.
        ValueError: another baseline, or a model of another task.
    """
    if baseline not in BASELINES:
        raise ValueError(f"token_attributions: `baseline` must be one of {BASELINES}. Received: {baseline!r}")
    if model.task not in ATTRIBUTED:
        raise ValueError(
            f"token_attributions: expected a model of one of {sorted(ATTRIBUTED)}. Received: one of {model.task!r}"
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
    other = 0.0 * vectors if baseline == "zero" else table[tokenizer.token_to_id(baseline)]
    fixed = np.array([token in _SPECIAL for token in states.tokens])[:, np.newaxis]
    found = integrated_gradients(
        _value_and_gradient(run, target), vectors, np.where(fixed, vectors, other), tolerance=tolerance
    )
    return TokenAttributions(
        states.tokens,
        target.description,
        found.attributions.sum(axis=-1).tolist(),
        found.start,
        found.end,
        found.error,
        found.is_complete,
        found.steps,
    )


def answer_from_vectors(model, states: TextStates):
    """A function of token vectors [n, S, H], instead of the text's own, to the model's outputs: {name: tensor}."""
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
        return head_outputs(model, x, pooled, padding_mask, places)

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
