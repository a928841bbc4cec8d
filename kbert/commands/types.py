"""What several commands share: options as the library takes them."""

from collections.abc import Callable, Mapping
from typing import Any

import kbert
from kbert.pipelines.registry import task_class, task_names


def given(**options) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def stored(asked) -> dict[str, Any]:
    """`window_pooling` and `null_threshold` as `kbert.build_pipeline` takes them, unless they are as stored."""
    values = {"window_pooling": asked.window_pooling, "null_threshold": asked.null_threshold}
    return {name: None if value == "off" else value for name, value in values.items() if value != "stored"}


def task_classes() -> Mapping[str, Callable]:
    """By the word that comes first: what makes the task object."""
    classes = {word: task_class(word) for word in task_names()}
    return {word: task for word, task in classes.items() if task.is_finetuned} | {"glue": kbert.tasks.glue}
