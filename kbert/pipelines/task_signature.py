"""A signature of a task, before serving adds its request limits, and example requests."""

import dataclasses
from collections.abc import Callable
from typing import Any

SENTENCE = "The committee met on Tuesday in Geneva, and Ada Lovelace spoke about engines that compute. "
LONG_TEXT = SENTENCE * 12

_TEXTS = {
    ("text",): [{"text": "A charming and often affecting journey."}, {"text": LONG_TEXT}],
    ("text", "text_pair"): [
        {"text": "How old are you?", "text_pair": "I am 27 years old."},
        {"text": LONG_TEXT, "text_pair": SENTENCE},
    ],
}


def example_rows(names) -> list[dict[str, str]]:
    """Requests for model cards and warm-up: rows for a pipeline with these inputs, dicts of column → string."""
    if tuple(names) not in _TEXTS:
        raise ValueError(f"export: expected one of the inputs {sorted(_TEXTS)}. Received: {tuple(names)}")
    return _TEXTS[tuple(names)]


@dataclasses.dataclass(frozen=True)
class TaskSignature:
    """A signature of a served model.

    Attributes:
        finish: ``finish(batch, inputs)``, a function of the preprocessor's batch and the string columns. It returns a
            dict of outputs with the first dimension of the columns.
        preprocessor: of the inputs. None: the pipeline's own.
        values_per_row: the number of floats of the largest output or intermediate result for a row of S tokens.
        kind: "predict", or "classify" or "regress", which take tf.Examples with the columns as features.
    """

    finish: Callable
    preprocessor: Any = None
    values_per_row: int = 1
    kind: str = "predict"


def answering(pipeline, answers=None, values_per_row=1) -> TaskSignature:
    """The signature that returns a pipeline's answers, or other `answers` from the same outputs of its model."""
    return TaskSignature(_Answering(pipeline.model, answers or pipeline.answers), values_per_row=values_per_row)


@dataclasses.dataclass(frozen=True)
class _Answering:
    """Two of these with the same objects are equal, so that an export has one graph for both."""

    model: Any
    answers: Any

    def __call__(self, batch, inputs):
        from kbert.pipelines.run_in_length_buckets import answer_batch  # not above: it loads TensorFlow

        return answer_batch(self.model, self.answers, batch)
