"""The architecture of a BERT model, as plain data."""

import dataclasses
import json
import math
import typing
from typing import Annotated, Any, Literal

from kbert.checks import Bounds
from kbert.files import parse_json
from kbert.options import Count, FractionBelowOne, Natural, check_fields

_SIZES = {  # num_layers, hidden_dim: the paper's two models and Google's miniatures (Turc et al. 2019)
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
_HEAD_WIDTH = 64  # of every named size

Activation = Literal["gelu_tanh", "gelu_erf", "relu", "silu", "tanh"]
ACTIVATIONS = typing.get_args(Activation)
PooledToken = Literal["first", "last"]
POOLED_TOKENS = typing.get_args(PooledToken)
Small = Annotated[float, Bounds("(0, 1e6)")]


class Misfit(ValueError):
    """Fields of a config do not go together. The arguments are what is required, the fields, and whose they are."""

    def __init__(self, requirement: str, fields: dict[str, Any], owner: str = "BertConfig"):
        super().__init__(requirement, fields, owner)

    def __str__(self) -> str:
        requirement, fields, owner = self.args
        received = ", ".join(f"{name}={value}" for name, value in fields.items())
        return f"{owner}: {requirement.format(*fields)}. Received: {received}"


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

    vocabulary_size: Count = 30522  # vocab_size
    num_layers: Count = 12  # num_hidden_layers
    hidden_dim: Count = 768  # hidden_size
    num_heads: Count = 12  # num_attention_heads
    intermediate_dim: Count = 3072  # intermediate_size
    max_sequence_length: Count = 512  # max_position_embeddings
    num_segments: Count = 2  # type_vocab_size
    pad_token_id: Natural = 0  # the id of [PAD], which is masked where a batch has no padding_mask
    activation: Activation = "gelu_tanh"  # hidden_act; Google's "gelu" is the tanh form, Hugging Face's the erf form
    hidden_dropout: FractionBelowOne = 0.1  # hidden_dropout_prob
    attention_dropout: FractionBelowOne = 0.1  # attention_probs_dropout_prob
    layer_norm_epsilon: Small = 1e-12  # fixed in Google's code
    initializer_stddev: Small = 0.02  # initializer_range
    causal: bool = False  # left-to-right attention, the paper's "LTR" ablation (section 5.1)
    position_embedding: Literal["learned", "sinusoidal"] = "learned"  # the latter is the Transformer's, without weights
    pooled_token: PooledToken = "first"  # [CLS]; "last": a left-to-right model's only token that has seen all

    def __post_init__(self):
        check_fields(self)
        if self.pad_token_id >= self.vocabulary_size:
            raise Misfit(
                "`{}` must be a token of the vocabulary",
                {"pad_token_id": self.pad_token_id, "vocabulary_size": self.vocabulary_size},
            )
        if self.hidden_dim % self.num_heads:
            raise Misfit("`{}` must divide `{}`", {"num_heads": self.num_heads, "hidden_dim": self.hidden_dim})
        if self.position_embedding == "sinusoidal" and self.hidden_dim % 2:
            raise Misfit("`{}` must be even: each frequency has a sine and a cosine", {"hidden_dim": self.hidden_dim})

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


MASK_RATE = 0.15  # the paper's fraction of tokens that are predicted


def default_max_predictions(sequence_length: int, mask_rate: float = MASK_RATE, left_to_right: bool = False) -> int:
    """20 of 128 tokens and 80 of 512, as the original at a rate of 15 %; of a left-to-right model all tokens."""
    if left_to_right:
        return max(1, sequence_length - 2)
    return min(sequence_length, math.ceil(sequence_length * 20 / 128 * (mask_rate / MASK_RATE)))


def default_num_parts(sequence_length: int) -> int:
    """K of packed rows: a part for every 16 tokens, and at least 4; a row of shorter parts is not filled."""
    return max(4, sequence_length // 16)
