"""What is needed besides the architecture to use a model: labels, preprocessing, thresholds."""

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from kbert.checks import check_bool, check_labels, check_positive


def default_labels(count: int) -> tuple[list[str], list[str]]:
    """The two lists of N default names: kbert's ``0, 1 …`` and ``LABEL_0, LABEL_1 …`` of transformers."""
    return [str(n) for n in range(count)], [f"LABEL_{n}" for n in range(count)]


DEFAULT_SEQUENCE_LENGTH = 128  # tokens of a text if neither the model nor its task has another default
_PREPROCESSING = (
    "sequence_length",
    "pair",
    "max_masks",
    "masking",
    "doc_stride",
    "max_query_length",
    "window_pooling",
    "tokenizer",
)
COUNTS = (
    "sequence_length",
    "max_masks",
    "top_k",
    "doc_stride",
    "max_query_length",
    "n_best",
    "max_answer_length",
)
CAN_BE_OFF = ("null_threshold", "thresholds", "window_pooling")  # for which None is a value: off
_CHOICES = {
    "window_pooling": (None, "max", "mean"),
    "tagging_output": ("entities", "tags"),
    "pooling": ("mean", "max", "cls", "pooler"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Everything about a model in ``config.json`` that is neither weights nor architecture.

    Raises:
        ValueError: an unknown field, a value of the wrong kind; the message names it.

    Example::

        settings = ModelSettings(task="classification", labels=["bad", "good"], sequence_length=64)
        ModelSettings.from_dict(settings.to_dict()) == settings
    """

    task: str | None = None  # None: the model's own
    labels: list[str] | None = None  # of classes or tags, in the order of the logits; None: "0", "1", ...
    sequence_length: int = DEFAULT_SEQUENCE_LENGTH  # S of the preprocessor
    pair: bool = False  # whether the inputs are pairs of texts
    max_masks: int = 8  # the most [MASK]s of a text that fill-mask answers
    masking: dict[str, Any] = dataclasses.field(default_factory=dict)  # of `fit`: arguments of TokenMasking
    doc_stride: int = 128  # tokens from one window of a long text to the next
    max_query_length: int = 64  # the most tokens of a question
    window_pooling: str | None = None  # long texts: None truncates, "max" or "mean" pools their windows' logits
    thresholds: list[float] | None = None  # multi-label: of the labels' probabilities; None: 0.5 each
    top_k: int = 5  # how many tokens fill-mask proposes
    pooling: str = "mean"  # of an encoder's embeddings: see kbert.answers.embedding
    normalize: bool = False  # whether embeddings are scaled to length 1
    null_threshold: float | None = None  # span extraction: "no answer" if it beats the best answer by more; None: never
    n_best: int = 20  # span extraction: starts and ends of a window that are combined, and answers listed
    max_answer_length: int = 30  # span extraction: tokens
    tagging_output: str = "tags"  # what a tagger answers with: "tags" of the words, or "entities"
    tokenizer: dict[str, Any] = dataclasses.field(default_factory=dict)  # BertTokenizer.settings()
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  # of a task from outside kbert, by name: JSON

    def __post_init__(self):
        checked: dict[str, Any] = check_positive("ModelSettings", **{name: getattr(self, name) for name in COUNTS})
        checked |= {name: check_bool(getattr(self, name), f"ModelSettings: `{name}`") for name in ("pair", "normalize")}
        if self.labels is not None:
            checked["labels"] = check_labels(self.labels, "ModelSettings")
        if self.thresholds is not None:
            checked["thresholds"] = _checked_thresholds(self.thresholds)
        if self.null_threshold is not None:
            if not _is_number(self.null_threshold) or not abs(self.null_threshold) < 1e30:
                raise ValueError(
                    f"ModelSettings: `null_threshold` must be a finite number. Received: {self.null_threshold!r}"
                )
            checked["null_threshold"] = float(self.null_threshold)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"ModelSettings: `{name}` must be one of {choices}. Received: {getattr(self, name)!r}")
        for name, content in (("tokenizer", "BertTokenizer's arguments"), ("options", "the task's own options")):
            if not isinstance(getattr(self, name), Mapping):
                raise ValueError(
                    f"ModelSettings: `{name}` must be a dict of {content}. Received: {getattr(self, name)!r}"
                )

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """All fields."""
        return tuple(field.name for field in dataclasses.fields(cls))

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or an option of a task from outside kbert."""
        return getattr(self, name) if name in self.field_names() else self.options.get(name, default)

    def replace(self, **values) -> "ModelSettings":
        """A copy with other values of fields, or of options of a task from outside kbert."""
        fields = {name: values.pop(name) for name in self.field_names() if name in values}
        return dataclasses.replace(self, **{"options": {**self.options, **values}, **fields})

    def to_dict(self) -> dict[str, Any]:
        """As in ``config.json``, where what the preprocessor needs is a separate object."""
        fields = dataclasses.asdict(self)
        preprocessing = {name: fields.pop(name) for name in _PREPROCESSING}
        return {**fields, "preprocessing": preprocessing}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "ModelSettings":
        """The inverse of `to_dict`; missing fields take their defaults, unknown ones are an error."""
        fields = dict(fields)
        preprocessing = dict(fields.pop("preprocessing", {}))
        unknown = sorted(set(fields) - (set(cls.field_names()) - set(_PREPROCESSING)))
        unknown += sorted(f"preprocessing.{name}" for name in set(preprocessing) - set(_PREPROCESSING))
        if unknown:
            raise ValueError(f"ModelSettings: unknown fields {unknown}. Known: {sorted(cls.field_names())}")
        return cls(**fields, **preprocessing)


def _checked_thresholds(thresholds):
    are_listed = isinstance(thresholds, list | tuple) or (isinstance(thresholds, np.ndarray) and thresholds.ndim == 1)
    if not are_listed or not all(_is_number(x) and 0 < x < 1 for x in thresholds):
        raise ValueError(f"ModelSettings: `thresholds` must be numbers in (0, 1). Received: {thresholds!r}")
    return [float(x) for x in thresholds]


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
