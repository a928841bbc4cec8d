"""What another format calls the fields of `BertConfig`, and which activations it means; read in both directions."""

import dataclasses
import reprlib
from typing import Any

from kbert.config import BertConfig
from kbert.weights.formats.sizes import SIZES

_REQUIRED = ("vocabulary_size", "num_layers", "hidden_dim", "num_heads", "intermediate_dim")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfigNames:
    """The words of one format, which stand in the format's own folder.

    What its config says and kbert cannot represent is refused, with the reason; so is what kbert's config says and the
    format cannot hold.

    Attributes:
        format: the name of the format.
        fields: kbert's field → the name there, of the fields that the format has.
        fixed: kbert's field → what the format's code has in its place, of fields that it does not let one choose.
        fixed_reason: why there is no choice, for messages.
        defaults: what a field there means where it is left out: the defaults of the format's own config class.
        activations: the name there → kbert's, where they differ. The first name of a function is the one written.
        num_labels: how the format calls the number of labels.
    """

    format: str
    fields: dict[str, str]
    fixed: dict[str, Any] = dataclasses.field(default_factory=dict)
    fixed_reason: str = "its code means"
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    activations: dict[str, str] | None = None
    num_labels: str = "num_labels"

    def to_kbert(self, content: dict[str, Any], source: str) -> BertConfig:
        """The `BertConfig` that a config describes; entries beyond the architecture are left to the readers.

        Args:
            content: the format's config.
            source: the file, for messages.

        Raises:
            ValueError: a field is missing, or has a value that kbert cannot represent.
        """
        content = {**self.defaults, **content}
        values = dict(self.fixed)
        values |= {ours: content[theirs] for ours, theirs in self.fields.items() if content.get(theirs) is not None}
        missing = [self.fields[name] for name in _REQUIRED if name not in values]
        if missing:
            raise ValueError(f"{source} does not say {', '.join(missing)}. Expected the config of a BERT.")
        for name in (self.fields[size] for size in SIZES):
            value = content.get(name, 1)
            if type(value) is not int or value < 1:
                raise ValueError(f"{source}: `{name}` must be a positive integer. Received: {reprlib.repr(value)}")
        if values["hidden_dim"] % values["num_heads"]:
            raise ValueError(
                f"{source}: `{self.fields['num_heads']}` must divide `{self.fields['hidden_dim']}`. "
                f"Received: {values['num_heads']} and {values['hidden_dim']}"
            )
        if self.activations is not None:
            values["activation"] = self._read_activation(values.get("activation"), source)
        try:
            return BertConfig.from_dict(values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{source}: {error}") from error

    def from_kbert(self, config: BertConfig) -> dict[str, Any]:
        """The format's fields for this config; the inverse of `to_kbert`.

        Raises:
            ValueError: a field that the format cannot hold.
        """
        values = config.to_dict()
        for name, fixed in self.fixed.items():
            if values[name] != fixed:
                raise ValueError(
                    f'format="{self.format}" cannot hold {name}={values[name]!r}: {self.fixed_reason} {fixed!r} '
                    "always. Written there the model would compute something else."
                )
        if self.activations is not None:
            values["activation"] = self._write_activation(config.activation)
        content = {}
        for ours, theirs in self.fields.items():
            if content.setdefault(theirs, values[ours]) != values[ours]:
                same = {name: values[name] for name, other in self.fields.items() if other == theirs}
                raise ValueError(f'format="{self.format}" has one number `{theirs}` for {list(same)}. Received: {same}')
        return content

    def size_names(self) -> dict[str, str]:
        """kbert's name of a size → the format's, of the config's sizes and of the number of labels."""
        return {"num_labels": self.num_labels} | {name: self.fields[name] for name in SIZES}

    def _read_activation(self, name, source):
        if not isinstance(name, str) or name not in self.activations:
            raise ValueError(
                f"{source}: {self.fields['activation']}={name!r} is an activation that kbert does not have. It reads "
                f"there: {sorted(self.activations)}"
            )
        return self.activations[name]

    def _write_activation(self, activation):
        for name, function in self.activations.items():
            if function == activation:
                return name
        known = ", ".join(f"{function} (there: {name!r})" for name, function in self.activations.items())
        raise ValueError(
            f'format="{self.format}" cannot hold activation={activation!r}: it has no name for it, only for {known}. '
            "Written under another name the model would compute something else."
        )
