"""The examples of a fine-tuning: those to train on, and those to score."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from kbert.tasks.examples import Examples
from kbert.tasks.in_memory import has_splits
from kbert.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class ExampleSets:
    """Training examples, and the dev sets by the suffix of their metrics: none, or "" and perhaps others."""

    train: Examples
    dev: Mapping[str, Examples]

    @classmethod
    def read(cls, task: Task, train: Any, dev: Any, more_dev: Mapping[str, Any]) -> Self:
        """The examples of the arguments of `kbert.finetune`."""
        if not isinstance(task, Task):
            raise TypeError(
                "finetune: expected `task` as a task object, such as kbert.tasks.Classification(text=..., label=...). "
                f"Received: {task!r}"
            )
        if dev is None and has_splits(train) and "validation" in train:
            dev = train
        if dev is None and more_dev:
            raise ValueError(f"finetune: `more_dev` needs `dev`. Received: more_dev={list(more_dev)} and dev=None")
        train = task.examples(train)
        if isinstance(dev, float):
            train, dev = train.split(dev)
        sets = {} if dev is None else {**more_dev, "": dev}
        return cls(train, {suffix: task.examples(examples, dev=True) for suffix, examples in sets.items()})

    def for_model(self, task: Task, settings: Mapping[str, Any]) -> Self:
        """The same examples with labels as numbers, in the order of a model's settings."""
        dev = {suffix: task.for_model(examples, settings) for suffix, examples in self.dev.items()}
        return type(self)(task.for_model(self.train, settings), dev)
