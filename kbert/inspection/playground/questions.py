"""What a view is asked and what it answers: checked fields, rounded numbers, rows of tokens.

Shapes: S sequence.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from kbert.inspection.analysis.states import truncated_tokens
from kbert.preprocessing.preprocessor import TextPreprocessor
from kbert.preprocessing.strings import as_text
from kbert.tasks.encoder import token_list

if TYPE_CHECKING:
    from kbert.inspection.playground.models import PlaygroundModel

_SHOWN = 60  # characters of a wrong value in a message
_LARGEST = 2**63 - 1  # of TensorFlow's int64
_SHORTEST = 5  # tokens: [CLS], two [SEP] and a token of each text


class BadRequest(ValueError):
    """A question that cannot be answered; the message is a sentence for the user."""


class RequestFields:
    """The JSON object of a question, of which only the `names` and ``model`` are allowed."""

    def __init__(self, values: Any, names: Sequence[str]) -> None:
        if not isinstance(values, Mapping):
            raise BadRequest(f"Expected a JSON object. Received: {_shown(values)}")
        names = ("model", *names)
        if unknown := sorted(set(values) - set(names)):
            raise BadRequest(f"Expected the fields {', '.join(names)}. Received: {_shown(unknown[0])}")
        self._values = values

    def model(self) -> str | None:
        """The name of the model that is asked; None: no model."""
        return self.optional_text("model")

    def text(self, name: str) -> str:
        value = self.optional_text(name)
        if value is None:
            raise BadRequest(f"`{name}`: expected a string. Received: nothing")
        return value

    def optional_text(self, name: str) -> str | None:
        """A string, or None where there is none."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise BadRequest(f"`{name}`: expected a string. Received: {_shown(value)}")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise BadRequest(
                f"`{name}`: expected text. Received: half of a surrogate pair at character {error.start}"
            ) from None
        return value

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        """One of several strings, or None where there is none."""
        value = self.optional_text(name)
        if value is not None and value not in choices:
            raise BadRequest(f"`{name}`: expected {' or '.join(choices)}. Received: {_shown(value)}")
        return value

    def boolean(self, name: str) -> bool:
        """Whether it is true; False where there is nothing."""
        value = self._value(name, False)
        if not isinstance(value, bool):
            raise BadRequest(f"`{name}`: expected true or false. Received: {_shown(value)}")
        return value

    def fraction(self, name: str, default: float) -> float:
        """A number in [0, 1]."""
        value = self._value(name, default)
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise BadRequest(f"`{name}`: expected a number from 0 to 1. Received: {_shown(value)}")
        return float(value)

    def integer(self, name: str, default: int | None, low: int = -_LARGEST, high: int = _LARGEST) -> int | None:
        """A whole number in [low, high]; None only where that is the default."""
        value = self._value(name, default)
        if value is None:
            return None
        if type(value) is not int or not low <= value <= high:
            raise BadRequest(f"`{name}`: expected a whole number from {low:,} to {high:,}. Received: {_shown(value)}")
        return value

    def _value(self, name, default):
        value = self._values.get(name)
        return default if value is None else value


def _shown(value):
    try:
        text = json.dumps(value)
    except ValueError:  # Python refuses numbers of thousands of digits
        text = type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def rounded(values: ArrayLike) -> list | float:
    """Nested lists of the numbers, rounded to seven significant digits, as many as float32 has."""
    values = np.asarray(values, "float64")
    if not np.isfinite(values).all():
        raise BadRequest("Expected finite numbers of the model. Received: NaN or infinity: its weights are damaged.")
    if values.ndim == 0:
        return float(f"{values:.7g}")
    return [rounded(row) for row in values] if values.ndim > 1 else [float(f"{value:.7g}") for value in values]


def as_arrays(answers: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Answers as `kbert.Pipeline.predict` gives them: tensors as arrays, strings as ``str``."""
    return {name: as_text(np.asarray(answer)) for name, answer in answers.items()}


def read_row(
    model: "PlaygroundModel", text: str, text_pair: str | None, longest: int | None = None
) -> tuple[list[dict[str, Any]], dict[str, tf.Tensor], int]:
    """The row of a text or pair without padding: (`token_object`s, batch, how many tokens did not fit).

    `longest` is a limit below the model's own.
    """
    size = min(model.max_length, longest or model.max_length)
    if size < _SHORTEST:
        raise BadRequest(f"Expected a model of at least {_SHORTEST} positions. Received: {size}")
    texts = {"text": text} if text_pair is None else {"text": text, "text_pair": text_pair}
    columns = {name: tf.constant([value]) for name, value in texts.items()}
    listed = token_list(TextPreprocessor(model.tokenizer, size, pair=text_pair is not None), columns)
    count = int(listed["count"][0])
    names = ("tokens", "token_ids", "segment_ids", "starts", "ends")
    rows = zip(*(listed[name][0, :count].numpy().tolist() for name in names), strict=True)
    tokens = [
        token_object(position, token.decode(), token_id, segment, start, end)
        for position, (token, token_id, segment, start, end) in enumerate(rows)
    ]
    batch = {name: listed[name][:, :count] for name in ("token_ids", "segment_ids")}
    batch["padding_mask"] = tf.ones([1, count], tf.bool)
    return tokens, batch, truncated_tokens(model.tokenizer, list(texts.values()), count)


def token_object(position: int, token: str, token_id: int, segment: int, start: int = -1, end: int = -1) -> dict:
    """A token as JSON; `start` and `end` are -1 for tokens that are in no text."""
    start, end = (None, None) if start < 0 else (start, end)
    return {"position": position, "token": token, "id": token_id, "segment": segment, "start": start, "end": end}
