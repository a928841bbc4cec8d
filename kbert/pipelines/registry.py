"""The tasks, one line each; the code of a task is in its folder, ``kbert/tasks/<word>/``."""

import importlib

TASKS = (
    "encoder",
    "pretraining",
    "masked_lm",
    "next_sentence",
    "classification",
    "regression",
    "span",
    "tagging",
    "multiple_choice",
)
_FOLDERS = ("encoder", "span", "tagging", "multiple_choice")
_PACKAGES = {word: f"kbert.tasks.{word}" for word in TASKS}


def register_task(word: str, package: str) -> None:
    """Adds a task from outside kbert: models with this ``task`` are then built, saved, loaded, exported and served.

    Args:
        word: the value of ``model.task``.
        package: importable package with the module ``pipeline``, whose ``PIPELINE`` is a
            `kbert.pipelines.TaskPipeline`; for fine-tuning also ``task``, whose ``TASK`` is the class of
            its task objects.

    Raises:
        ValueError: the word belongs to another package.

    Example::

        register_task("duplicates", "my_project.duplicates")
    """
    if _PACKAGES.get(word, package) != package:
        raise ValueError(f"register_task: expected a new word. Received: {word!r}, which is {_PACKAGES[word]}")
    _PACKAGES[word] = package


def task_names() -> tuple[str, ...]:
    """The words of all tasks; those added by `register_task` come last."""
    return tuple(_PACKAGES)


def task_pipeline(word):
    """The `TaskPipeline` of a task."""
    return _module(word, "pipeline").PIPELINE


def task_class(word):
    """The class of a task's objects, such as `kbert.tasks.Classification`.

    Raises:
        ValueError: an unknown task, or one without fine-tuning on examples.
    """
    module = _module(word, "task")
    if not hasattr(module, "TASK"):
        raise ValueError(f"Expected a task that is fine-tuned on examples. Received: {word!r}")
    return module.TASK


def register_classes() -> None:
    """Imports every class that a saved pipeline can contain: Keras finds them only once they are registered."""
    for word in _PACKAGES:
        task_pipeline(word)


def _module(word, name):
    if word not in _PACKAGES:
        raise ValueError(f"Expected one of the tasks {task_names()}. Received: {word!r}")
    if word in TASKS:
        return importlib.import_module(_PACKAGES[word] + ".task" * (word in _FOLDERS))
    return importlib.import_module(f"{_PACKAGES[word]}.{name}")
