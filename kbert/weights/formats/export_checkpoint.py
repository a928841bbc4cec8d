"""A model's variables as another family wants them; what a family cannot hold is refused here, with the reason."""

from collections.abc import Callable

import numpy as np
from keras import ops

from kbert.models.quantized_layers import quantized_layers
from kbert.weights.formats.name_table import Place, row_of, sizes_of

_NO_PLACE = {  # family -> first part of the variable's path -> why there is no place for it
    "google": {
        "masked_lm_head": "an untied decoder: Google's code always reads the word-piece table in its place",
        "tagger_head": "a tagging head: Google's code has none",
        "multiple_choice_head": "a multiple-choice head: Google's code has none",
    },
    "kerashub": {
        "masked_lm_head": "an untied decoder: BertMaskedLM always reads the word-piece table in its place",
        "next_sentence_head": "a next-sentence head: KerasHub has none",
        "span_head": "a span head: KerasHub has none",
        "tagger_head": "a tagging head: KerasHub has none",
        "multiple_choice_head": "a multiple-choice head: KerasHub has none",
    },
}
_ADVICE = "Save the encoder alone (save_pretrained(model.encoder, …)), or in another format."


def outgoing(family: str, model) -> dict[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]]:
    """Name there → (shape there, function that gives the values), in the order of the model's variables.

    Raises:
        ValueError: a variable for which the family has no place.
    """
    sizes = sizes_of(model.config, getattr(model, "num_labels", None))
    return {
        place.name: (place.shape(sizes), lambda v=variable, p=place: p.from_kbert(_float32(v), sizes))
        for variable, place in _placed(family, model)
    }


def _float32(variable):
    return ops.convert_to_numpy(variable).astype("float32", copy=False)  # a model may be kept in bfloat16


def places(family: str, model) -> dict[str, Place]:
    """Path of each variable → its place in the family."""
    return {variable.path: place for variable, place in _placed(family, model)}


def _placed(family, model):
    if quantized_layers(model):
        raise ValueError(f'format="{family}" cannot hold a quantised model. Save it as format="kbert".')
    for variable in model.weights:
        place = row_of(variable.path).places.get(family)
        if place is None:
            reason = _NO_PLACE[family][variable.path.split("/")[0]]
            raise ValueError(f'format="{family}" cannot hold {reason}. {_ADVICE}')
        yield variable, place


def has_pooler(model) -> bool:
    """Whether the model's encoder has a pooler."""
    return model.encoder.pooler is not None


def check_pooler(family: str, model, needed: bool, reason: str) -> None:
    """Refuses a model whose encoder has no pooler where the family's model has one, or the reverse.

    Raises:
        ValueError: with the reason.
    """
    if has_pooler(model) == needed:
        return
    if needed:
        raise ValueError(
            f'format="{family}" cannot hold an encoder without pooler: {reason}, and would initialise one anew. Save '
            'it as format="kbert", or give it a pooler: load_pretrained(…, pooler=True).'
        )
    raise ValueError(
        f'format="{family}" cannot hold a {model.task} model whose encoder has a pooler: {reason}. The pooler has '
        "no part in this task: load the model with load_pretrained(…, pooler=False) to leave it out "
        "(convert_checkpoint.py: --no-pooler)."
    )


def check_head(family: str, model, activation=None, layer_norm_epsilon=None) -> None:
    """Refuses a masked-LM head that computes something else than the family's does.

    Args:
        activation, layer_norm_epsilon: those of the family's head; None: as in the encoder.

    Raises:
        ValueError: with both.
    """
    if not getattr(model, "masked_lm", False):
        return
    expected = activation or model.config.activation, layer_norm_epsilon or model.config.layer_norm_epsilon
    found = (
        model.head_activation or model.config.activation,
        model.head_layer_norm_epsilon or model.config.layer_norm_epsilon,
    )
    if found != expected:
        raise ValueError(
            f'format="{family}" has a masked-LM head with activation and LayerNorm epsilon {expected}. Received: a '
            f"model whose head has {found}. Written there it would compute something else. {_ADVICE}"
        )
