"""Which number of a model's output is explained: the answer that it gives, for each task.

Shapes: n points, S sequence, H hidden, N labels, P predictions, V vocabulary.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from keras import ops

_LONGEST_ANSWER = 30  # tokens, as in the original's run_squad.py


@dataclasses.dataclass(frozen=True)
class Target:
    """A number of a model's output.

    Attributes:
        description: what it is, for a reader.
        read: function of the outputs, by name → tensor [n].
    """

    description: str
    read: Callable


def head_outputs(model, sequence_output, pooled_output, padding_mask, mask_positions) -> dict:
    """A model's outputs from those of its encoder, by its own heads: what `model(batch)` gives, by the same names.

    Args:
        model: of one of the tasks of `ATTRIBUTED`.
        sequence_output: [n, S, H].
        pooled_output: [n, H]; None for an encoder without pooler.
        padding_mask: bool [n, S].
        mask_positions: int [n, P], which only a masked-LM head reads.
    """
    layers, found = {layer.name: layer for layer in model.layers}, {}
    if "bilstm" in layers:
        states = layers["bilstm"](sequence_output, padding_mask)  # [n, H] or [n, S, H]
        sequence_output, pooled_output = (
            (sequence_output, states) if len(states.shape) == 2 else (states, pooled_output)
        )
    if "classifier_head" in layers:
        found["logits"] = layers["classifier_head"](pooled_output)  # [n, N]
    if "regressor_head" in layers:
        found["score"] = layers["regressor_head"](pooled_output)[..., 0]
    if "tagger_head" in layers:
        found["logits"] = layers["tagger_head"](sequence_output)  # [n, S, N]
    if "span_head" in layers:
        logits = layers["span_head"](sequence_output)  # [n, S, 2]
        found |= {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
    if "masked_lm_head" in layers:
        found["mlm_logits"] = layers["masked_lm_head"](sequence_output, mask_positions)  # [n, P, V]
    if "next_sentence_head" in layers:
        found["nsp_logits"] = layers["next_sentence_head"](pooled_output)
    return found


def choose_target(model, states, outputs, names=None) -> Target | None:
    """The number that stands for a model's answer to one text.

    Args:
        model: of one of the tasks of `ATTRIBUTED`.
        outputs: the model's, as `head_outputs` gives them, NumPy arrays with n = 1.
        names: of the N labels; of a model with a masked-LM head the vocabulary.

    Returns:
        `Target`; None if the model gives no such answer to this text (no [MASK], no second text to answer from).
    """
    return ATTRIBUTED[model.task](states, outputs, names)


def _classification(states, outputs, names):
    best = int(outputs["logits"][0].argmax())
    name = names[best] if names else str(best)
    return Target(f"the logit of the label “{name}”", lambda found: found["logits"][:, best])


def _regression(states, outputs, names):
    return Target("the score", lambda found: found["score"])


def _next_sentence(states, outputs, names):
    if len(states.texts) < 2:
        return None
    return Target("the logit of IsNext", lambda found: found["nsp_logits"][:, 0])


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
        lambda found: found["start_logits"][:, first] + found["end_logits"][:, last],
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
    what = f"the logit of {names[tag]} for “{states.tokens[place]}”"
    return Target(what, lambda found: found["logits"][:, place, tag])


def _masked_lm(states, outputs, names):
    if "[MASK]" not in states.tokens:
        return None
    best = int(outputs["mlm_logits"][0, 0].argmax())
    name = names[best] if names else str(best)
    return Target(f"the logit of “{name}” for the first [MASK]", lambda found: found["mlm_logits"][:, 0, best])


ATTRIBUTED = {
    "classification": _classification,
    "regression": _regression,
    "next_sentence": _next_sentence,
    "span": _span,
    "tagging": _tagging,
    "masked_lm": _masked_lm,
    "pretraining": _masked_lm,
}


def mask_positions(states, causal: bool = False) -> np.ndarray:
    """Where a model predicts the [MASK]s of a text, int32 [1, P]; position 0 where there is none.

    Args:
        causal: whether it is left-to-right: it predicts a token at the one before it.
    """
    places = [n - int(causal) for n, token in enumerate(states.tokens) if token == "[MASK]"]
    return np.array([places or [0]], "int32")


def to_numpy(outputs: dict) -> dict[str, np.ndarray]:
    """Outputs as NumPy arrays."""
    return {name: ops.convert_to_numpy(value) for name, value in outputs.items()}
