"""The signatures of a served model: the pipeline's and its task's, with limits on requests.

Shapes: B texts, C choices, S sequence, M masks, V vocabulary.
"""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from kbert.checks import check_positive
from kbert.pipelines.pipeline import Pipeline
from kbert.pipelines.registry import task_class
from kbert.preprocessing.windows import at_most, limit_rows
from kbert.serving.export import MAX_REQUEST_BYTES, MAX_REQUEST_TOKENS
from kbert.tasks.task import Task, TaskSignature, answering

if TYPE_CHECKING:
    from kbert.preprocessing.preprocessor import Preprocessor

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
        limits = check_positive("export", **dataclasses.asdict(self))
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

    def check_bytes(self, strings: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The string tensors, after a check that they are within `max_request_bytes`."""
        lengths = [tf.cast(tf.strings.length(column), tf.int64) for column in strings]
        size = tf.add_n([tf.reduce_sum(length) for length in lengths])
        advice = "Send less at once, or export the model with a larger max_request_bytes."
        return at_most(size, self.max_request_bytes, "bytes of text", advice, list(strings))

    def batch(
        self, preprocessor: "Preprocessor", inputs: dict[str, tf.Tensor], values_per_row: int = 1
    ) -> dict[str, tf.Tensor]:
        """The preprocessor's batch, within the limits.

        Args:
            preprocessor: the pipeline's.
            inputs: string columns, [B] or [B, C].
            values_per_row: as for `max_rows`.
        """
        max_rows = self.max_rows(preprocessor.sequence_length, values_per_row)
        if preprocessor.makes_windows:
            return preprocessor(inputs, max_windows=max_rows)
        sizes = [tf.reduce_prod(tf.maximum(tf.shape(column), 1)) for column in inputs.values()]
        rows = tf.reduce_max(sizes)  # B, of choices B * C; of prompts without a choice B
        return preprocessor(limit_rows(inputs, rows, max_rows, preprocessor.sequence_length))


@dataclasses.dataclass(frozen=True)
class ServingSignature:
    """One signature: its function, and what a server must know of it.

    Attributes:
        function: of one tensor for each input; returns a dict of outputs [B, ...].
        preprocess: the part of `function` before the model, from inputs to batch. It raises
            tf.errors.InvalidArgumentError for a request beyond the limits.
        inputs: dict of name → tf.TensorSpec, in the function's order.
        examples: requests of one row each, dict of column → string; for warm-up and the model card.
        max_rows: the most rows of S tokens that the model runs for a request.
        kind: predict, or classify or regress, which take tf.Examples with the columns as features.
    """

    function: Callable
    preprocess: Callable
    inputs: dict[str, tf.TensorSpec]
    examples: list[dict]
    max_rows: int
    kind: str = "predict"


def signatures(
    pipeline: Pipeline, layers: Sequence[int] | None = None, limits: ServingLimits | None = None
) -> dict[str, ServingSignature]:
    """The signatures of a pipeline's SavedModel.

    They are ``serving_default``, the pipeline itself, and the signatures of its task.

    | task | signatures besides serving_default |
    |---|---|
    | encoder | ``embed``, ``tokenize``, ``features`` |
    | pretraining, masked_lm | ``fill_mask``; with a next-sentence head ``next_sentence`` |
    | next_sentence | ``next_sentence`` |
    | classification, regression | ``classify``, ``regress`` on tf.Examples |
    | span, tagging, multiple_choice | ``answer``; ``tag``, ``entities``; ``choose`` |

    Args:
        layers: of an encoder, which hidden states ``features`` returns, as indices into the L + 1 of them (0 =
            embeddings, -1 = last). None: the last four, or all if there are fewer.
        limits: `kbert.serving.ServingLimits`, which every signature checks. None: the default ones.

    Raises:
        ValueError: layers that the encoder does not have, or for a model that is not an encoder; limits that do not
            allow a single row.
    """
    limits = limits or ServingLimits()
    task = task_class(pipeline.model.task)
    options = {} if layers is None else {"layers": layers}
    if other := set(options) - set(inspect.signature(task.signatures).parameters):
        raise ValueError(f"export: the task {task.name} does not take {sorted(other)}. Received: layers={layers!r}")
    default = answering(pipeline, values_per_row=task.values_per_row(pipeline))
    by_name = {"serving_default": default, **task.signatures(pipeline, **options)}
    limited = {signature: _within_limits(signature, pipeline, task, limits) for signature in set(by_name.values())}
    return {name: limited[signature] for name, signature in by_name.items()}


def _within_limits(signature: TaskSignature, pipeline: Pipeline, task, limits: ServingLimits) -> ServingSignature:
    """The signature with its limits, on string columns or, unless it predicts, on tf.Examples."""
    preprocessor = signature.preprocessor or pipeline.preprocessor
    specs = preprocessor.string_signature()
    rows_of = (task if signature.preprocessor is None else Task).example_rows

    def checked(columns):
        return dict(zip(specs, limits.check_bytes(columns), strict=True))

    def preprocess(*columns):
        return limits.batch(preprocessor, checked(columns), signature.values_per_row)

    def function(*columns):
        inputs = checked(columns)
        batch = limits.batch(preprocessor, inputs, signature.values_per_row)
        return signature.finish(batch, inputs)

    max_rows = limits.max_rows(preprocessor.sequence_length, signature.values_per_row)
    plain = ServingSignature(function, preprocess, specs, rows_of(tuple(specs)), max_rows)
    if signature.kind == "predict":
        return plain
    return _on_examples(plain, limits, signature.kind)


def _on_examples(plain: ServingSignature, limits: ServingLimits, kind: str) -> ServingSignature:
    """A signature on serialised tf.Examples, with the columns of `plain` as features."""
    features = {name: tf.io.FixedLenFeature([], tf.string) for name in plain.inputs}

    def columns(inputs):
        (inputs,) = limits.check_bytes([inputs])  # a message has more bytes than its strings
        parsed = tf.io.parse_example(inputs, features)
        return [parsed[name] for name in plain.inputs]

    return ServingSignature(
        lambda inputs: plain.function(*columns(inputs)),
        lambda inputs: plain.preprocess(*columns(inputs)),
        {"inputs": tf.TensorSpec([None], tf.string, name="inputs")},
        plain.examples,
        plain.max_rows,
        kind,
    )
