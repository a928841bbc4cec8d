"""The architecture of a BERT model, as plain data."""

import dataclasses
import json
import math
from typing import Any

from kbert.checks import check_bool, check_numbers, check_positive
from kbert.files import parse_json

_SIZES = {  # num_layers, hidden_dim: the paper's two models and Google's miniatures (Turc et al. 2019)
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
_HEAD_WIDTH = 64  # of every named size

_COUNTS = (
    "vocabulary_size",
    "num_layers",
    "hidden_dim",
    "num_heads",
    "intermediate_dim",
    "max_sequence_length",
    "num_segments",
)
_INTERVALS = {
    "[0, 1)": ("hidden_dropout", "attention_dropout"),
    "(0, 1e6)": ("layer_norm_epsilon", "initializer_stddev"),
}
POSITION_EMBEDDINGS = ("learned", "sinusoidal")
POOLED_TOKENS = ("first", "last")
ACTIVATIONS = ("gelu_tanh", "gelu_erf", "relu", "silu", "tanh")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig:
    """The architecture of a BERT encoder; the defaults are BERT-base, uncased.

    Immutable and validated on construction. A comment gives the name of a field in Google's ``bert_config.json`` where
    it differs.

    Raises:
        ValueError: a value that no BERT can have; the message names the field and the value received.

    Source: Devlin et al. 2018, section 3 and appendix A.2.

    Example::

        config = BertConfig.from_size("tiny", vocabulary_size=8000)
        BertConfig.from_json(config.to_json()) == config
    """

    vocabulary_size: int = 30522  # vocab_size
    num_layers: int = 12  # num_hidden_layers
    hidden_dim: int = 768  # hidden_size
    num_heads: int = 12  # num_attention_heads
    intermediate_dim: int = 3072  # intermediate_size
    max_sequence_length: int = 512  # max_position_embeddings
    num_segments: int = 2  # type_vocab_size
    activation: str = "gelu_tanh"  # hidden_act; Google's "gelu" is the tanh form, Hugging Face's the erf form
    hidden_dropout: float = 0.1  # hidden_dropout_prob
    attention_dropout: float = 0.1  # attention_probs_dropout_prob
    layer_norm_epsilon: float = 1e-12  # fixed in Google's code
    initializer_stddev: float = 0.02  # initializer_range
    causal: bool = False  # left-to-right attention, the paper's "LTR" ablation (section 5.1)
    position_embedding: str = "learned"  # or "sinusoidal", the Transformer's, which has no weights
    pooled_token: str = "first"  # [CLS]; "last": a left-to-right model's last token is the only one that has seen all

    def __post_init__(self):
        checked = check_positive("BertConfig", **{name: getattr(self, name) for name in _COUNTS})
        for interval, names in _INTERVALS.items():
            checked |= check_numbers("BertConfig", interval, **{name: getattr(self, name) for name in names})
        checked["causal"] = check_bool(self.causal, "BertConfig: `causal`")
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for name, allowed in (
            ("activation", ACTIVATIONS),
            ("position_embedding", POSITION_EMBEDDINGS),
            ("pooled_token", POOLED_TOKENS),
        ):
            self._require(getattr(self, name) in allowed, name, f"one of {allowed}")
        if self.hidden_dim % self.num_heads:
            raise ValueError(
                "BertConfig: `num_heads` must divide `hidden_dim`. "
                f"Received: num_heads={self.num_heads}, hidden_dim={self.hidden_dim}"
            )
        if self.position_embedding == "sinusoidal":
            self._require(self.hidden_dim % 2 == 0, "hidden_dim", "even: each frequency has a sine and a cosine")

    def _require(self, holds, name, expected):
        if not holds:
            raise ValueError(f"BertConfig: `{name}` must be {expected}. Received: {getattr(self, name)!r}")

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_dim // self.num_heads

    @classmethod
    def from_size(cls, size: str, **overrides: Any) -> "BertConfig":
        """The config of a named size, ``tiny`` to ``large``; keyword arguments replace single fields."""
        if size not in _SIZES:
            raise ValueError(f"BertConfig.from_size: `size` must be one of {tuple(_SIZES)}. Received: {size!r}")
        num_layers, hidden_dim = _SIZES[size]
        fields = {
            "num_layers": num_layers,
            "hidden_dim": hidden_dim,
            "num_heads": hidden_dim // _HEAD_WIDTH,
            "intermediate_dim": 4 * hidden_dim,
        }
        return cls.from_dict(fields | overrides)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "BertConfig":
        """The config with these fields; an unknown field is an error, a missing one takes its default."""
        if not isinstance(fields, dict):
            raise ValueError(f"BertConfig: expected an object of fields. Received: {fields!r}")
        names = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(fields) - names)
        if unknown:
            raise ValueError(f"BertConfig: unknown fields {unknown}. Known: {sorted(names)}")
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """All fields, as plain Python values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, text: str) -> "BertConfig":
        """The inverse of `to_json`."""
        return cls.from_dict(parse_json(text, "BertConfig"))

    def to_json(self) -> str:
        """All fields as a JSON object, one a line."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


def default_max_predictions(sequence_length: int, mask_rate: float = 0.15, left_to_right: bool = False) -> int:
    """20 of 128 tokens and 80 of 512, as the original at a rate of 15 %; of a left-to-right model all tokens."""
    if left_to_right:
        return max(1, sequence_length - 2)
    return min(sequence_length, math.ceil(sequence_length * 20 / 128 * (mask_rate / 0.15)))


def default_num_parts(sequence_length: int) -> int:
    """K of packed rows: a part for every 16 tokens, and at least 4; a row of shorter parts is not filled."""
    return max(4, sequence_length // 16)
