"""The signatures of a served model: those of its task, with limits on requests.

Shapes: B batch, S sequence.
"""

import dataclasses
import inspect
from collections.abc import Callable

import tensorflow as tf

from kbert.pipelines.example_rows import example_rows
from kbert.pipelines.registry import task_pipeline
from kbert.pipelines.task_signature import TaskSignature, answering
from kbert.serving.limits import ServingLimits

METHODS = {kind: f"tensorflow/serving/{kind}" for kind in ("predict", "classify", "regress")}


@dataclasses.dataclass(frozen=True)
class ServingSignature:
    """One signature.

    Attributes:
        function: of the inputs, one tensor each; returns a dict of outputs, the first dimension of each is B.
        preprocess: the part of `function` before the model: of the inputs, the batch. It raises
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


def signatures(pipeline, layers=None, limits=None) -> dict[str, ServingSignature]:
    """The signatures of a pipeline's SavedModel: ``serving_default``, the pipeline itself, and those of its task.

    | task | signatures besides serving_default |
    |---|---|
    | encoder | ``embed``, ``tokenize``, ``features`` |
    | pretraining, masked_lm | ``fill_mask``; with a next-sentence head ``next_sentence`` |
    | next_sentence | ``next_sentence`` |
    | classification, regression | ``classify``, ``regress`` on tf.Examples |
    | span, tagging, multiple_choice | ``answer``; ``tag``, ``entities``; ``choose`` |

    Args:
        layers: of an encoder, which hidden states ``features`` returns, as indices into the L + 1 of them (0 =
            embeddings, -1 = last); None: the last four, or all if there are fewer.
        limits: `kbert.serving.ServingLimits`, which every signature checks; None: the default ones.

    Raises:
        ValueError: layers that the encoder does not have, or for a model that is not an encoder; limits that do not
            allow a single row.
    """
    limits = limits or ServingLimits()
    task = task_pipeline(pipeline.model.task)
    options = {} if layers is None else {"layers": layers}
    if other := set(options) - set(inspect.signature(task.signatures).parameters):
        raise ValueError(f"export: the task {task.task} does not take {sorted(other)}. Received: layers={layers!r}")
    default = answering(pipeline, values_per_row=task.values_per_row(pipeline))
    named = {"serving_default": default, **task.signatures(pipeline, **options)}
    made = {signature: _within_limits(signature, pipeline, task, limits) for signature in set(named.values())}
    return {name: made[signature] for name, signature in named.items()}


def _within_limits(signature: TaskSignature, pipeline, task, limits):
    """The signature with its limits, on string columns or, depending on its kind, on tf.Examples."""
    preprocessor = signature.preprocessor or pipeline.preprocessor
    specs = preprocessor.string_signature()
    rows_of = task.example_rows if signature.preprocessor is None else example_rows

    def checked(columns):
        return dict(zip(specs, limits.check_bytes(columns), strict=True))

    def preprocess(*columns):
        return limits.batch(preprocessor, checked(columns), signature.values_per_row)

    def function(*columns):
        inputs = checked(columns)
        return signature.finish(limits.batch(preprocessor, inputs, signature.values_per_row), inputs)

    plain = ServingSignature(
        function,
        preprocess,
        specs,
        rows_of(tuple(specs)),
        limits.max_rows(preprocessor.sequence_length, signature.values_per_row),
    )
    return plain if signature.kind == "predict" else _on_examples(plain, limits, signature.kind)


def _on_examples(plain, limits, kind):
    """A signature that takes serialised tf.Examples, with the columns of `plain` as features."""
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
