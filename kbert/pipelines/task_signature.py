"""A signature of a task, before serving adds its limits to it."""

import dataclasses
from collections.abc import Callable
from typing import Any

from kbert.pipelines.run_in_length_buckets import run_in_length_buckets


@dataclasses.dataclass(frozen=True)
class TaskSignature:
    """What a served model can be asked.

    Attributes:
        finish: ``finish(batch, inputs)`` of the preprocessor's batch and the string columns; dict of outputs, the first
            dimension of each is that of the columns.
        preprocessor: of the inputs; None: the pipeline's own.
        values_per_row: floats that the largest output or intermediate result has for a row of S tokens.
        kind: predict, or classify or regress, which take tf.Examples with the columns as features.
    """

    finish: Callable
    preprocessor: Any = None
    values_per_row: int = 1
    kind: str = "predict"


def answering(pipeline, answers=None, values_per_row=1) -> TaskSignature:
    """The signature that gives a pipeline's answers, or other `answers` to the same outputs of its model."""
    return TaskSignature(_Answering(pipeline.model, answers or pipeline.answers), values_per_row=values_per_row)


@dataclasses.dataclass(frozen=True)
class _Answering:
    """Two that answer with the same objects are equal: an export then holds one graph for both."""

    model: Any
    answers: Any

    def __call__(self, batch, inputs):
        return self.answers(run_in_length_buckets(self.model, batch), batch)
