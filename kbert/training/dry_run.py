"""Estimates of a training before it starts: parameters, tokens, memory and time.

Shapes: B batch, S sequence.
"""

import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import keras

from kbert.errors import reading_errors
from kbert.keras_compat import strategy_of
from kbert.training.callbacks import clock
from kbert.training.flops import batch_shape, peak_bytes, training_flops_per_token
from kbert.training.jax_devices import count_devices
from kbert.training.memory import activation_bytes, memory_errors

if TYPE_CHECKING:
    import tensorflow as tf


_MEASURED_FLOPS = 2e11  # of a step that is measured: seconds on a slow processor
_STEPS = 3  # measured, after one that traces
_OF_BOUND = 6  # measured: so many times `activation_bytes` from 64 to 256 rows of 128 tokens with tiny; mini at 512: 7


def estimate_training(model: keras.Model, dataset: "tf.data.Dataset | keras.utils.PyDataset", steps: int) -> dict:
    """Parameters, tokens, memory and time of a run of `steps`.

    Time is measured over a few steps on some rows of the first batch. This changes the weights, so do not use the model
    afterwards. Evaluation and saving are not counted.

    Returns:
        dict: `parameters`, `trainable_parameters`, `batch_size`, `sequence_length`, `steps`, `tokens` (with
        padding), `memory_bytes` (the peak of this process or its accelerator in the measured steps, and an
        estimate for the rows that were not measured), `seconds_per_step` and `seconds` of the whole run.
    """
    with reading_errors():
        batch = next(iter(dataset), None)
    if batch is None:
        raise ValueError("estimate_training: expected a dataset with a batch. Received: an empty one")
    rows, length = batch_shape(dataset)
    examples = _rows(batch[1])
    length = length or batch[0]["token_ids"].shape[-1]
    rows = rows or _rows(batch)  # more than examples, where an example has several choices or texts
    measured = _measured_examples(model, examples, rows // examples, length)
    with memory_errors(measured * rows // examples, length):
        part = keras.tree.map_structure(lambda column: column[: measured * column.shape[0] // examples], batch)
        seconds = mean_seconds_per_step(model, repeated_batch(part, _STEPS + 1), _STEPS) * examples / measured
    bounds = [activation_bytes(model, number, length) for number in (measured * rows // examples, rows)]
    trainable = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    return {
        "parameters": model.count_params(),
        "trainable_parameters": trainable,
        "batch_size": rows,
        "sequence_length": length,
        "steps": steps,
        "tokens": steps * rows * length,
        "memory_bytes": peak_bytes() + _OF_BOUND * (bounds[1] - bounds[0]),
        "seconds_per_step": seconds,
        "seconds": seconds * steps,
    }


def format_estimate(estimate: dict) -> str:
    """The result of `estimate_training` as readable lines."""
    stages = "".join(
        f"{stage['steps']:,} steps of {stage['batch_size']:,} rows of {stage['sequence_length']} tokens: "
        f"{stage['tokens']:,} tokens\n"
        for stage in estimate.get("stages", [estimate])
    )
    rows = f"{estimate['examples']:,} examples in {estimate['windows']:,} rows\n" if "windows" in estimate else ""
    step = f"{1e3 * estimate['seconds_per_step']:.0f} ms a step on this machine"
    return (
        f"{rows}{estimate['parameters']:,} parameters, {estimate['trainable_parameters']:,} of them trained\n"
        f"{stages}"
        f"memory: about {estimate['memory_bytes'] / 2**20:,.0f} MiB\n"
        f"time: about {clock(estimate['seconds'])} ({step})"
    )


def count_sequences(dataset: "tf.data.Dataset | keras.utils.PyDataset", seconds: float = 10.0) -> tuple[int, bool]:
    """Counts the rows of a finite dataset: (how many, whether it was read to its end within `seconds`)."""
    count = 0
    end = time.perf_counter() + seconds
    with reading_errors():
        for batch in dataset:
            count += _rows(batch)
            if time.perf_counter() > end:
                return count, False
    return count, True


def mean_seconds_per_step(model: keras.Model, dataset: Any, steps: int) -> float:
    """Mean seconds of a training step with its batch, over `steps` after one that traces; this changes the weights."""
    ends = []

    def wait_for_step(batch, logs):
        if batch in (0, steps):
            float(logs["loss"])  # on an accelerator steps run while Python goes on
            ends.append(time.perf_counter())

    timer = keras.callbacks.LambdaCallback(on_train_batch_end=wait_for_step)
    with reading_errors():
        model.fit(dataset, epochs=1, steps_per_epoch=steps + 1, callbacks=[timer], verbose=0, shuffle=False)
    return (ends[-1] - ends[0]) / steps


def _rows(batch) -> int:
    return int(keras.tree.flatten(batch)[0].shape[0])


def _measured_examples(model: keras.Model, examples: int, choices: int, length: int) -> int:
    """Few enough examples for a step to take seconds, and at least one for each micro-batch of a replica."""
    strategy = strategy_of(model)
    parts = (strategy.num_replicas_in_sync if strategy is not None else count_devices()) * model.micro_batches
    flops = training_flops_per_token(model.config, length, length / 6) * length * choices
    fitting = int(_MEASURED_FLOPS / flops)
    return min(examples, max(parts, fitting // parts * parts))


def repeated_batch(batch: tuple, count: int) -> "tf.data.Dataset | Iterator[tuple]":
    """Gives the same batch so many times, as `fit` takes it: a dataset, or off TensorFlow a generator."""
    if keras.backend.backend() != "tensorflow":
        return (batch for _ in range(count))
    import tensorflow as tf

    return tf.data.Dataset.from_tensors(batch).repeat(count)
