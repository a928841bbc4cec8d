"""Limits on a request, which every signature of an export checks in graph.

Shapes: B texts, C choices, S sequence, M masks, V vocabulary.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbert.checks import check_option
from kbert.options import Count

if TYPE_CHECKING:
    import tensorflow as tf

    from kbert.preprocessing.preprocessor import Preprocessor

MAX_REQUEST_BYTES, MAX_REQUEST_TOKENS = 2**20, 2**17
# The number of floats in one output: 256 MB. It bounds the memory of [B, S, ...] and [B, M, V].
_MOST_VALUES = 2**26


@dataclasses.dataclass(frozen=True)
class ServingLimits:
    """Two limits that every signature of an export checks in graph, before it computes anything.

    They bound the time and the memory of a request, whatever it contains. A request that exceeds one of them is refused
    with INVALID_ARGUMENT (REST 400). The message has the limit and what was received.

    Attributes:
        max_request_bytes: bytes of text, over all strings of the request.
        max_request_tokens: tokens that the model runs for a request: rows × S, padding included. A long text has a row
            for each of its windows, a multiple-choice question one for each choice.

    Raises:
        ValueError: a limit that is not a positive integer below 2**63.
    """

    max_request_bytes: int = MAX_REQUEST_BYTES
    max_request_tokens: int = MAX_REQUEST_TOKENS

    def __post_init__(self):
        limits = dataclasses.asdict(self)
        for name, value in limits.items():
            check_option("export", name, value, Count)
        if large := {name: value for name, value in limits.items() if value >= 2**63}:
            raise ValueError(f"export: limits must be less than 2**63, as servers count in int64. Received: {large}")

    def max_rows(self, sequence_length: int, values_per_row: int = 1) -> int:
        """The rows of S tokens that a request may have.

        Args:
            sequence_length: S.
            values_per_row: floats of the largest output or intermediate result for each row.

        Raises:
            ValueError: not even one row is allowed.
        """
        if sequence_length > self.max_request_tokens:
            raise ValueError(
                "export: `max_request_tokens` must allow one row of the model's sequence length, "
                f"{sequence_length}. Received: {self.max_request_tokens}"
            )
        rows = self.max_request_tokens // sequence_length
        return max(1, min(rows, _MOST_VALUES // values_per_row))

    def check_bytes(self, strings: "Sequence[tf.Tensor]") -> "list[tf.Tensor]":
        """The string tensors, after a check that they are within `max_request_bytes`."""
        import tensorflow as tf

        from kbert.preprocessing.windows import at_most

        lengths = [tf.cast(tf.strings.length(column), tf.int64) for column in strings]
        size = tf.add_n([tf.reduce_sum(length) for length in lengths])
        advice = "Send less at once, or export the model with a larger max_request_bytes."
        return at_most(size, self.max_request_bytes, "bytes of text", advice, list(strings))

    def batch(
        self, preprocessor: "Preprocessor", inputs: "dict[str, tf.Tensor]", values_per_row: int = 1
    ) -> "dict[str, tf.Tensor]":
        """The preprocessor's batch, within the limits.

        Args:
            preprocessor: the pipeline's.
            inputs: string columns, [B] or [B, C].
            values_per_row: as for `max_rows`.
        """
        import tensorflow as tf

        from kbert.preprocessing.windows import limit_rows

        max_rows = self.max_rows(preprocessor.sequence_length, values_per_row)
        if preprocessor.makes_windows:
            return preprocessor(inputs, max_windows=max_rows)
        sizes = [tf.reduce_prod(tf.maximum(tf.shape(column), 1)) for column in inputs.values()]
        rows = tf.reduce_max(sizes)  # B, of choices B * C; of prompts without a choice B
        return preprocessor(limit_rows(inputs, rows, max_rows, preprocessor.sequence_length))
