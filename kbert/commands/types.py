"""What several commands share: types of flags, and options as the library takes them."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import kbert

Precision = Literal["auto", "float32", "mixed_bfloat16", "mixed_float16"]
Format = Literal["auto", "lines", "prose", "wikiextractor", "parquet"]


def given(**options) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def stored(asked) -> dict[str, Any]:
    """`window_pooling` and `null_threshold` as `kbert.build_pipeline` takes them, unless they are as stored."""
    values = {"window_pooling": asked.window_pooling, "null_threshold": asked.null_threshold}
    return {name: None if value == "off" else value for name, value in values.items() if value != "stored"}


def task_classes() -> Mapping[str, Callable]:
    """By the word that comes first: a function that imports what makes the task object."""
    return {
        "classification": lambda: kbert.tasks.Classification,
        "regression": lambda: kbert.tasks.Regression,
        "span": lambda: kbert.tasks.SpanExtraction,
        "tagging": lambda: kbert.tasks.Tagging,
        "multiple_choice": lambda: kbert.tasks.MultipleChoice,
        "similarity": lambda: kbert.tasks.Similarity,
        "glue": lambda: kbert.tasks.glue,
    }
