"""The settings of a model, with those of some fields that its task has."""

from kbert.pipelines.registry import task_class
from kbert.pipelines.settings import ModelSettings


def settings_of(word, sequence_length, **fields):
    """`ModelSettings` of a task; fields that it does not have are left out."""
    task = task_class(word)
    own = {name: value for name, value in fields.items() if name in task.option_names()}
    return ModelSettings(task=task(**own), sequence_length=sequence_length)
