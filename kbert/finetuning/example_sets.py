"""The examples of a fine-tuning: those to train on, and those to score."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from kbert.tasks.examples import Examples
from kbert.tasks.in_memory import has_splits
from kbert.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class ExampleSets:
    """Training examples, dev examples, and further dev sets by the suffix of their metrics."""

    train: Examples
    dev: Examples | None
    more_dev: Mapping[str, Examples]

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
        train = task.examples(train)
        if isinstance(dev, float):
            train, dev = train.split(dev)
        return cls(
            train,
            None if dev is None else task.examples(dev, dev=True),
            {suffix: task.examples(examples, dev=True) for suffix, examples in more_dev.items()},
        )

    def for_model(self, task: Task, settings: Mapping[str, Any]) -> Self:
        """The same examples with labels as numbers, in the order of a model's settings."""
        return type(self)(
            task.for_model(self.train, settings),
            None if self.dev is None else task.for_model(self.dev, settings),
            {suffix: task.for_model(examples, settings) for suffix, examples in self.more_dev.items()},
        )

    def dev_sets(self) -> dict[str, Examples]:
        """The sets to score, by the names of their arguments: ``dev``, ``more_dev_mm``."""
        dev = {} if self.dev is None else {"dev": self.dev}
        return dev | {f"more_dev{suffix}": examples for suffix, examples in self.more_dev.items()}
