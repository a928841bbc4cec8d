"""The one table of config fields: what each family calls a field of `BertConfig`, and which activations it means.

It is read in both directions. What a family's config says and kbert cannot represent is refused, with the reason; so is
what kbert's config says and a family cannot hold.
"""

import reprlib
from typing import Any

from kbert.config import BertConfig
from kbert.weights.formats.sizes import SIZES

# kbert's field; Google's bert_config.json; Hugging Face's config.json; KerasHub's BertBackbone
_FIELDS = (
    ("vocabulary_size", "vocab_size", "vocab_size", "vocabulary_size"),
    ("num_layers", "num_hidden_layers", "num_hidden_layers", "num_layers"),
    ("hidden_dim", "hidden_size", "hidden_size", "hidden_dim"),
    ("num_heads", "num_attention_heads", "num_attention_heads", "num_heads"),
    ("intermediate_dim", "intermediate_size", "intermediate_size", "intermediate_dim"),
    ("max_sequence_length", "max_position_embeddings", "max_position_embeddings", "max_sequence_length"),
    ("num_segments", "type_vocab_size", "type_vocab_size", "num_segments"),
    ("activation", "hidden_act", "hidden_act", None),
    ("hidden_dropout", "hidden_dropout_prob", "hidden_dropout_prob", "dropout"),
    ("attention_dropout", "attention_probs_dropout_prob", "attention_probs_dropout_prob", "dropout"),
    ("layer_norm_epsilon", None, "layer_norm_eps", None),
    ("initializer_stddev", "initializer_range", "initializer_range", None),
    ("causal", None, "is_decoder", None),
)
_COLUMN = {"google": 1, "huggingface": 2, "kerashub": 3}
_FILE = {"google": "bert_config.json", "huggingface": "config.json", "kerashub": "config.json"}

# What a family's code has in place of a field it does not let one choose.
_FIXED = {
    "google": {"layer_norm_epsilon": 1e-12, "causal": False},
    "huggingface": {},
    "kerashub": {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12, "causal": False, "initializer_stddev": 0.02},
}
# What a field means where it is left out: the defaults of the families' own config classes.
_DEFAULTS = {
    "google": {"type_vocab_size": 16},
    "huggingface": {"hidden_act": "gelu"},
    "kerashub": {},
}
# The same word means different functions: Google's "gelu" is the tanh form, Hugging Face's the erf form.
# The first name of a function is the one written.
_ACTIVATIONS = {
    "google": {"gelu": "gelu_tanh", "relu": "relu", "tanh": "tanh"},
    "huggingface": {
        "gelu_pytorch_tanh": "gelu_tanh", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
        "gelu_python_tanh": "gelu_tanh", "gelu": "gelu_erf", "gelu_python": "gelu_erf", "relu": "relu",
        "silu": "silu", "swish": "silu", "tanh": "tanh",
    },
}  # fmt: skip


def config_from(family: str, fields: dict[str, Any], source: str) -> BertConfig:
    """The `BertConfig` that a family's config describes; fields beyond the architecture are left to the readers.

    Args:
        family: "google", "huggingface" or "kerashub".
        fields: the family's config.
        source: the file, for messages.

    Raises:
        ValueError: a field is missing, or has a value that kbert cannot represent.
    """
    fields = {**_DEFAULTS[family], **fields}
    values = dict(_FIXED[family])
    for row in _FIELDS:
        name = row[_COLUMN[family]]
        if name is not None and fields.get(name) is not None:
            values[row[0]] = fields[name]
    missing = [row[_COLUMN[family]] for row in _FIELDS[:5] if row[0] not in values]
    if missing:
        raise ValueError(f"{source} does not say {', '.join(missing)}. Expected the config of a BERT.")
    for name in (row[_COLUMN[family]] for row in _FIELDS if row[0] in SIZES):
        value = fields.get(name, 1)
        if type(value) is not int or value < 1:
            raise ValueError(f"{source}: `{name}` must be a positive integer. Received: {reprlib.repr(value)}")
    if values["hidden_dim"] % values["num_heads"]:
        names = field_names(family)
        raise ValueError(
            f"{source}: `{names['num_heads']}` must divide `{names['hidden_dim']}`. "
            f"Received: {values['num_heads']} and {values['hidden_dim']}"
        )
    if family in _ACTIVATIONS:
        values["activation"] = _activation_from(family, values.get("activation"), source)
    try:
        return BertConfig.from_dict(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source}: {error}") from error


def field_names(family: str) -> dict[str, str]:
    """kbert's name of a size → the family's, of the config's sizes and of the number of labels."""
    return {"num_labels": "num_classes"} | {row[0]: row[_COLUMN[family]] for row in _FIELDS if row[0] in SIZES}


def config_for(family: str, config: BertConfig) -> dict[str, Any]:
    """The family's fields for this config; the inverse of `config_from`.

    Raises:
        ValueError: a field that this family cannot hold.
    """
    values = config.to_dict()
    for name, fixed in _FIXED[family].items():
        if values[name] != fixed:
            raise ValueError(
                f'format="{family}" cannot hold {name}={values[name]!r}: {_FIXED_REASON[family]} {fixed!r} always. '
                "Written there the model would compute something else."
            )
    if family == "kerashub" and config.hidden_dropout != config.attention_dropout:
        raise ValueError(
            'format="kerashub" has one dropout rate for hidden states and attention. Received: '
            f"hidden_dropout={config.hidden_dropout}, attention_dropout={config.attention_dropout}"
        )
    if family in _ACTIVATIONS:
        values["activation"] = _activation_for(family, config.activation)
    return {row[_COLUMN[family]]: values[row[0]] for row in _FIELDS if row[_COLUMN[family]] is not None}


_FIXED_REASON = {
    "google": "its code has no such field, and means",
    "kerashub": "BertBackbone has no such argument, and means",
}


def _activation_from(family, name, source):
    known = _ACTIVATIONS[family]
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"{source}: hidden_act={name!r} is an activation that kbert does not have. It reads there: {sorted(known)}"
        )
    return known[name]


def _activation_for(family, activation):
    for name, function in _ACTIVATIONS[family].items():
        if function == activation:
            return name
    names = {function: name for name, function in reversed(_ACTIVATIONS[family].items())}
    raise ValueError(
        f'format="{family}" cannot hold activation={activation!r}: '
        + ('its "gelu" is the tanh form, and there is no name for the erf form. ' if activation == "gelu_erf" else "")
        + f"It can hold {sorted(names)}. Written under another name the model would compute something else."
    )
