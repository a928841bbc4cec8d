"""Another format's names for the fields of `BertConfig` and for activations, used in both directions."""

import dataclasses
import reprlib
from typing import Any

from kbert.aliases import PathLike
from kbert.checks import check_option
from kbert.config import BertConfig, Misfit

BERT_CONFIG_FIELDS = {  # of Google's bert_config.json, whose words Hugging Face kept
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "hidden_dim": "hidden_size",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "pad_token_id": "pad_token_id",
    "activation": "hidden_act",
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_stddev": "initializer_range",
}
_REQUIRED = ("vocabulary_size", "num_layers", "hidden_dim", "num_heads", "intermediate_dim")
SIZES = (*_REQUIRED, "max_sequence_length", "num_segments")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfigNames:
    """The names of one format. What kbert cannot represent, or the format cannot hold, is refused with the reason.

    Attributes:
        fields: the format's name of each field of kbert's that it has.
        fixed: kbert's field → the constant in the format's code, for fields that cannot be chosen there.
        defaults: values of missing fields, as in the format's own config class.
        activations: the format's name → kbert's, where they differ. If a function has several names, the first is
            written.
    """

    format: str
    fields: dict[str, str]
    fixed: dict[str, Any] = dataclasses.field(default_factory=dict)
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    activations: dict[str, str] | None = None

    def to_kbert(self, content: dict[str, Any], source: str) -> BertConfig:
        """The `BertConfig` that a config from the file `source` describes; the reader handles other entries."""
        content = {**self.defaults, **content}
        values = dict(self.fixed)
        for ours, theirs in self.fields.items():
            if theirs in content and (content[theirs] is not None or ours in SIZES):
                values[ours] = content[theirs]
        if missing := [self.fields[name] for name in _REQUIRED if name not in values]:
            raise ValueError(f"{source} does not say {', '.join(missing)}. Expected the config of a BERT.")
        if self.activations is not None:
            name = values.get("activation")
            if not isinstance(name, str) or name not in self.activations:
                raise ValueError(
                    f"{source}: {self.fields['activation']}={name!r} is an activation that kbert does not have. It "
                    f"reads there: {sorted(self.activations)}"
                )
            values["activation"] = self.activations[name]
        for field in dataclasses.fields(BertConfig):
            if field.name in values:
                check_option(source, self.fields.get(field.name, field.name), values[field.name], field.type)
        try:
            return BertConfig(**values)
        except Misfit as error:
            requirement, fields, _ = error.args
            raise Misfit(requirement, {self.fields.get(ours, ours): fields[ours] for ours in fields}, source) from None

    def from_kbert(self, config: BertConfig) -> dict[str, Any]:
        """The format's fields for this config; the inverse of `to_kbert`."""
        values = config.to_dict()
        for name, fixed in self.fixed.items():
            if values[name] != fixed:
                raise ValueError(
                    f'format="{self.format}" cannot hold {name}={values[name]!r}: its models always have {fixed!r}. '
                    "Written there the model would compute something else."
                )
        if self.activations is not None:
            names = {function: name for name, function in reversed(self.activations.items())}
            if config.activation not in names:
                raise ValueError(
                    f'format="{self.format}" cannot hold activation={config.activation!r}: it has no name for it, only '
                    f"for {', '.join(self.activations.values())}. Written under another name the model would compute "
                    "something else."
                )
            values["activation"] = names[config.activation]
        content = {}
        for ours, theirs in self.fields.items():
            if content.setdefault(theirs, values[ours]) != values[ours]:
                same = {name: values[name] for name, foreign in self.fields.items() if foreign == theirs}
                raise ValueError(f'format="{self.format}" has one number `{theirs}` for {list(same)}. Received: {same}')
        return content


_KINDS = {dict: "an object", list: "a list", bool: "true or false", int: "an integer", str: "a string"}


def entry(content: dict[str, Any], key: str, kind: type, source: PathLike, default: Any = None) -> Any:
    """An entry of an object in JSON; `default` if it is missing or null."""
    value = content.get(key)
    if value is None:
        return default
    if type(value) is not kind:
        raise ValueError(f"{source}: `{key}` must be {_KINDS[kind]}. Received: {reprlib.repr(value)}")
    return value
