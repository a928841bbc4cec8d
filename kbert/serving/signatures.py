"""The signatures of a served model: the pipeline's and its task's, with limits on requests.

Shapes: B texts, C choices, S sequence, M masks, V vocabulary.
"""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from kbert.pipelines.pipeline import Pipeline
from kbert.pipelines.registry import task_class
from kbert.serving.limits import ServingLimits
from kbert.tasks.task import Task, TaskSignature, answering

if TYPE_CHECKING:
    pass


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
