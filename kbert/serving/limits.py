"""Limits on the size of a request.

Shapes: B texts, C choices, S sequence, M masks, V vocabulary.
"""

import dataclasses

import tensorflow as tf

from kbert.checks import check_positive
from kbert.preprocessing.limits import at_most, limit_rows

# The number of floats in one output: 256 MB. It bounds the memory of [B, S, ...] and [B, M, V].
_MAX_VALUES = 2**26


@dataclasses.dataclass(frozen=True)
class ServingLimits:
    """Two limits that every signature of an export checks in graph, before it computes anything.

    They bound the time and the memory of a request, whatever it contains. A request that exceeds one of them is refused
    with INVALID_ARGUMENT (REST 400) and a message with the limit and what was received.

    Attributes:
        max_request_bytes: bytes of text, over all strings of the request.
        max_request_tokens: tokens that the model runs for a request: rows × S, padding included, where a long text has
            a row for each of its windows, and a multiple-choice question one for each choice.

    Raises:
        ValueError: a limit that is not a positive integer below 2**63.
    """

    max_request_bytes: int = 2**20
    max_request_tokens: int = 2**17

    def __post_init__(self):
        limits = check_positive("export", **dataclasses.asdict(self))
        if large := {name: value for name, value in limits.items() if value >= 2**63}:
            raise ValueError(f"export: limits must be less than 2**63, as servers count in int64. Received: {large}")
        for name, value in limits.items():
            object.__setattr__(self, name, value)

    def max_rows(self, sequence_length, values_per_row=1):
        """The rows of S tokens that a request may have.

        Args:
            sequence_length: S.
            values_per_row: number of floats of the largest output or intermediate result for each row.

        Raises:
            ValueError: not even one row is allowed.
        """
        if sequence_length > self.max_request_tokens:
            raise ValueError(
                "export: `max_request_tokens` must allow one row of the model's sequence length, "
                f"{sequence_length}. Received: {self.max_request_tokens}"
            )
        return max(1, min(self.max_request_tokens // sequence_length, _MAX_VALUES // values_per_row))

    def check_bytes(self, strings):
        """The string tensors (a list), after checking that they are within `max_request_bytes`."""
        lengths = (tf.reduce_sum(tf.cast(tf.strings.length(column), tf.int64)) for column in strings)
        advice = "Send less at once, or export the model with a larger max_request_bytes."
        return at_most(tf.add_n(list(lengths)), self.max_request_bytes, "bytes of text", advice, list(strings))

    def batch(self, preprocessor, inputs, values_per_row=1):
        """The preprocessor's batch, within the limits.

        Args:
            preprocessor: a `kbert.preprocessing.Preprocessor`.
            inputs: dict of string columns, [B] or [B, C].
            values_per_row: as for `max_rows`.
        """
        max_rows = self.max_rows(preprocessor.sequence_length, values_per_row)
        if preprocessor.makes_windows:
            return preprocessor(inputs, max_windows=max_rows)
        sizes = [tf.reduce_prod(tf.maximum(tf.shape(column), 1)) for column in inputs.values()]
        rows = tf.reduce_max(sizes)  # B, of choices B * C; of prompts without a choice B
        return preprocessor(limit_rows(inputs, rows, max_rows, preprocessor.sequence_length))
