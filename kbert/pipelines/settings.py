"""What is needed besides the architecture to use a model: its task, and how its texts become rows of tokens."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from kbert.options import Count, check_fields
from kbert.pipelines.registry import task_class

DEFAULT_SEQUENCE_LENGTH = 128  # tokens of a text if neither the model nor its task has another default


def default_labels(count: int) -> tuple[list[str], list[str]]:
    """The two lists of N default names: kbert's ``0, 1 …`` and ``LABEL_0, LABEL_1 …`` of transformers."""
    return [str(n) for n in range(count)], [f"LABEL_{n}" for n in range(count)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Everything about a model in ``config.json`` that is neither weights nor architecture.

    Args:
        task: the object of the model's task, such as a `kbert.tasks.Classification`. A task's word means one with the
            defaults. Only the fields that a model is used with are stored, such as labels and thresholds, and not how
            the files of its training were read.
        sequence_length: S of the preprocessor.
        tokenizer: `kbert.BertTokenizer.settings` of the tokenizer.

    Raises:
        ValueError: values out of bounds, or on `from_dict` unknown entries.

    Example::

        settings = ModelSettings(task=kbert.tasks.Classification(labels=["bad", "good"]), sequence_length=64)
        ModelSettings.from_dict(settings.to_dict()) == settings
    """

    task: Any
    sequence_length: Count = DEFAULT_SEQUENCE_LENGTH
    tokenizer: Mapping = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        def prepare(name, value):
            return task_class(value)() if name == "task" and isinstance(value, str) else value

        check_fields(self, prepare)

    def replace(self, **values) -> "ModelSettings":
        """A copy with other values of fields, or of fields of the task."""
        own = {name: values.pop(name) for name in ("task", "sequence_length", "tokenizer") if name in values}
        settings = dataclasses.replace(self, **own)
        return dataclasses.replace(settings, task=dataclasses.replace(settings.task, **values)) if values else settings

    def to_dict(self) -> dict[str, Any]:
        """The settings as ``config.json`` has them."""
        return {
            "task": {"name": self.task.name, **self.task.stored()},
            "sequence_length": self.sequence_length,
            "tokenizer": dict(self.tokenizer),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "ModelSettings":
        """The inverse of `to_dict`. Missing fields of the task take their defaults, unknown ones are an error."""
        names = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(fields) - set(names)):
            raise ValueError(f"ModelSettings: unknown fields {unknown}. Known: {names}")
        if not isinstance(task := fields.get("task"), Mapping) or not isinstance(task.get("name"), str):
            raise ValueError(f"ModelSettings: `task` must be an object with the `name` of a task. Received: {task!r}")
        return cls(**{**fields, "task": task_class(task["name"]).from_stored(task)})
