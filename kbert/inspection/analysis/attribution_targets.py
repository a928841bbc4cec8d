"""Which number of a model's output is explained: the answer that it gives, for each kind of head.

Shapes: n points, S sequence, H hidden, N labels, P predictions, V vocabulary.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from keras import ops

_LONGEST_ANSWER = 30  # tokens, as in the original's run_squad.py


@dataclasses.dataclass(frozen=True)
class Target:
    """A number of a model's output: its description, and how it is read from the outputs (tensor [n])."""

    description: str
    read: Callable


@dataclasses.dataclass(frozen=True)
class Head:
    """A kind of head whose answers are explained.

    `outputs` maps (layer, sequence_output [n, S, H], pooled_output [n, H], mask_positions [n, P])
    to outputs by name. `target` maps (states, outputs, names) to a `Target` or None, as
    `choose_target` does.
    """

    outputs: Callable
    target: Callable


def explained_heads(model) -> dict[str, Head]:
    """The `HEADS` that a model has, by the names of their layers."""
    layers = {layer.name for layer in model.layers}
    return {name: head for name, head in HEADS.items() if name in layers}


def head_outputs(model, sequence_output, pooled_output, mask_positions) -> dict:
    """What `model(batch)` gives, computed by the model's heads from its encoder's outputs.

    `sequence_output` is [n, S, H], `pooled_output` [n, H] (None without a pooler) and
    `mask_positions` int [n, P], which only a masked-LM head reads.
    """
    outputs = {}
    for name, head in explained_heads(model).items():
        outputs |= head.outputs(model.get_layer(name), sequence_output, pooled_output, mask_positions)
    return outputs


def choose_target(model, states, outputs, names=None) -> Target | None:
    """The number that stands for a model's answer to one text.

    `outputs` are NumPy arrays with n = 1. `names` are the labels, or the vocabulary of a masked-LM
    head. None is returned if the model has no answer to this text: no [MASK], or no second text.
    """
    first, *_ = explained_heads(model).values()
    return first.target(states, outputs, names)


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
    logits = outputs["logits"][0]  # [S, N]
    probs = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probs /= probs.sum(axis=-1, keepdims=True)
    names = list(names or map(str, range(logits.shape[-1])))
    inside = [n for n, token in enumerate(states.tokens) if token not in ("[CLS]", "[SEP]")]
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


def mask_positions(states, causal: bool = False) -> np.ndarray:
    """Where a model predicts the [MASK]s of a text, int32 [1, P]; position 0 where there is none.

    A causal model predicts a token at the position before it.
    """
    places = [n - int(causal) for n, token in enumerate(states.tokens) if token == "[MASK]"]
    return np.array([places or [0]], "int32")


def to_numpy(outputs: dict) -> dict[str, np.ndarray]:
    """Outputs as NumPy arrays."""
    return {name: ops.convert_to_numpy(value) for name, value in outputs.items()}
