"""Which tokens decided an answer: integrated gradients on the token embeddings, for each kind of head.

Shapes: n points, S sequence, H hidden, N labels, P predictions, V vocabulary.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from kbert.errors import SetupError
from kbert.inspection.analysis.states import TextStates

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel
    from kbert.text.tokenizer import BertTokenizer

_SPECIAL = ("[CLS]", "[SEP]")  # equal in text and baseline, so they get no attribution
_STEPS = (16, 32, 64, 128, 256)  # points on the path, until the sum is right
_BATCH = 16  # points at a time
_TOLERANCE = 0.01  # of the sum
_LONGEST_ANSWER = 30  # tokens, as in the original's run_squad.py


@dataclasses.dataclass(frozen=True, eq=False)
class TokenAttributions:
    """What each token of a text contributes to an answer.

    Attributes:
        target: description of the number that is explained.
        attributions: of each token; above 0: it speaks for the answer.
        start, end: the number for the baseline and for the text.
        error: how far the attributions are from adding up to ``end - start``, as a fraction of it.
        is_complete: whether the error is within the tolerance.
        steps: the number of points at which the gradient was taken.
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
    model: "BertModel",
    tokenizer: "BertTokenizer",
    states: TextStates,
    *,
    labels: Sequence[str] | None = None,
) -> TokenAttributions | None:
    """Explains the answer of a model with one of the `HEADS` by a text's tokens; None if it gives no answer to it.

    The path leads from the embedding of [MASK], everywhere but at [CLS] and [SEP], to the embeddings of the text's
    tokens. Positions and segments stay. A token's attribution is the sum over its vector.
    """
    if keras.backend.backend() != "tensorflow":
        raise SetupError(
            "token_attributions: expected Keras' TensorFlow backend, whose gradients it takes. Received: "
            f"{keras.backend.backend()!r}"
        )
    run = answer_from_vectors(model, states)
    table = ops.convert_to_numpy(model.encoder.token_embedding.embeddings).astype("float32")
    vectors = table[states.token_ids]  # [S, H]
    outputs = {name: ops.convert_to_numpy(value) for name, value in run(vectors[np.newaxis]).items()}
    first, *_ = explained_heads(model).values()
    target = first.target(states, outputs, tokenizer.vocabulary if "mlm_logits" in outputs else labels)
    if target is None:
        return None
    fixed = np.array([token in _SPECIAL for token in states.tokens])[:, np.newaxis]
    baseline = np.where(fixed, vectors, table[tokenizer.mask_id])
    attributions, check = integrated_gradients(_value_and_gradient(run, target), vectors, baseline)
    return TokenAttributions(states.tokens, target.description, attributions.sum(axis=-1).tolist(), **check)


def answer_from_vectors(model: "BertModel", states: TextStates) -> Callable[[Any], dict[str, Any]]:
    """A function of token vectors [n, S, H], in place of the text's, to the model's outputs by name."""
    encoder = model.encoder.with_parts(None)
    batch = states.batch
    masks = mask_positions(states, encoder.config.causal)

    def run(vectors):
        segments, padding_mask, places = (
            np.repeat(value, vectors.shape[0], axis=0) for value in (batch["segment_ids"], batch["padding_mask"], masks)
        )
        x = encoder.embeddings.combine(vectors, segments)  # [n, S, H]
        bias = encoder.attention_bias(padding_mask)
        for block in encoder.blocks:
            x = block(x, bias, training=False)
        pooled = None if encoder.pooler is None else encoder.pooler(x, padding_mask=padding_mask)
        outputs = {}
        for name, head in explained_heads(model).items():
            outputs |= head.outputs(model.get_layer(name), x, pooled, places)
        return outputs

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


def integrated_gradients(
    function: Callable, point: np.ndarray, baseline: np.ndarray
) -> tuple[np.ndarray, dict[str, Any]]:
    """Integrates the gradient on the straight line from `baseline` to `point` (Gauss-Legendre).

    The steps are doubled until the sum of the attributions is the difference of the outputs within 1% of it, or of
    0.01. `function` maps points [n, ...], n at most 16, to (outputs [n], gradients [n, ...]), NumPy arrays.

    Returns:
        The attributions, float64 of the input's shape, and their check, the last five fields of `TokenAttributions`.

    Source: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks". Proposition 1 is completeness.
    """
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
        attributions = mean * (point - baseline)
        difference = float(end) - float(start)
        error = abs(float(attributions.sum()) - difference) / max(abs(difference), 0.01)
        if error <= _TOLERANCE:
            break
    check = {"start": float(start), "end": float(end), "error": error, "is_complete": error <= _TOLERANCE}
    return attributions, check | {"steps": steps}


@dataclasses.dataclass(frozen=True)
class Target:
    """A number of a model's output: its description, and how it is read from the outputs (tensor [n])."""

    description: str
    read: Callable


@dataclasses.dataclass(frozen=True)
class Head:
    """A kind of head whose answers are explained."""

    outputs: Callable  # (layer, sequence_output [n, S, H], pooled_output [n, H], mask_positions [n, P]) → by name
    target: Callable  # (states, outputs as arrays with n = 1, names of labels or tokens) → `Target`; None: no answer


def explained_heads(model: keras.Model) -> dict[str, Head]:
    """The `HEADS` of a model, by the names of their layers."""
    layers = {layer.name for layer in model.layers}
    return {name: head for name, head in HEADS.items() if name in layers}


def _classification(states, outputs, names):
    best = int(outputs["logits"][0].argmax())
    name = names[best] if names else str(best)
    return Target(f"the logit of the label “{name}”", lambda outputs: outputs["logits"][:, best])


def _regression(states, outputs, names):
    return Target("the score", lambda outputs: outputs["score"])


def _next_sentence(states, outputs, names):
    if len(states.texts) < 2:
        return None
    return Target("the logit of IsNext", lambda outputs: outputs["nsp_logits"][:, 0])


def _span(states, outputs, names):
    inside = np.flatnonzero((states.segment_ids == 1) & (np.array(states.tokens) != "[SEP]"))
    if not inside.size:
        return None
    scores = outputs["start_logits"][0][inside, np.newaxis] + outputs["end_logits"][0][inside]
    length = inside - inside[:, np.newaxis]
    scores = np.where((length >= 0) & (length < _LONGEST_ANSWER), scores, -np.inf)
    first, last = (int(inside[n]) for n in np.unravel_index(scores.argmax(), scores.shape))
    answer = " ".join(states.tokens[first : last + 1]).replace(" ##", "")
    return Target(
        f"the score of the answer “{answer}”, the sum of its start and end logits",
        lambda outputs: outputs["start_logits"][:, first] + outputs["end_logits"][:, last],
    )


def _tagging(states, outputs, names):
    probs = ops.convert_to_numpy(ops.softmax(outputs["logits"][0]))  # [S, N]
    names = list(names or map(str, range(probs.shape[-1])))
    inside = [n for n, token in enumerate(states.tokens) if token not in _SPECIAL]
    tags = [n for n, name in enumerate(names) if name != "O"]
    if not inside or not tags:
        return None
    place, tag = np.unravel_index(probs[np.ix_(inside, tags)].argmax(), (len(inside), len(tags)))
    place, tag = inside[int(place)], tags[int(tag)]
    description = f"the logit of {names[tag]} for “{states.tokens[place]}”"
    return Target(description, lambda outputs: outputs["logits"][:, place, tag])


def _masked_lm(states, outputs, names):
    if "[MASK]" not in states.tokens:
        return None
    best = int(outputs["mlm_logits"][0, 0].argmax())
    name = names[best] if names else str(best)
    return Target(f"the logit of “{name}” for the first [MASK]", lambda outputs: outputs["mlm_logits"][:, 0, best])


def _span_outputs(head, tokens, pooled, masks):
    logits = head(tokens)  # [n, S, 2]
    return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


HEADS = {
    "classifier_head": Head(lambda head, tokens, pooled, masks: {"logits": head(pooled)}, _classification),  # [n, N]
    "regressor_head": Head(lambda head, tokens, pooled, masks: {"score": head(pooled)[..., 0]}, _regression),
    "span_head": Head(_span_outputs, _span),
    "tagger_head": Head(lambda head, tokens, pooled, masks: {"logits": head(tokens)}, _tagging),  # [n, S, N]
    "masked_lm_head": Head(lambda head, tokens, pooled, masks: {"mlm_logits": head(tokens, masks)}, _masked_lm),
    "next_sentence_head": Head(lambda head, tokens, pooled, masks: {"nsp_logits": head(pooled)}, _next_sentence),
}


def mask_positions(states: TextStates, causal: bool = False) -> np.ndarray:
    """Where a model predicts the [MASK]s of a text, int32 [1, P], a causal one before each; 0 where there is none."""
    places = [n - int(causal) for n, token in enumerate(states.tokens) if token == "[MASK]"]
    return np.array([places or [0]], "int32")
