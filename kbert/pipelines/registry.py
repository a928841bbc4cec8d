"""The tasks by their words.

``kbert/tasks/__init__.py`` registers kbert's own tasks, and other projects register theirs.
"""

from collections.abc import Callable

_TASKS: dict[str, Callable[[], type]] = {}


def register_task(word: str, load: Callable[[], type]) -> None:
    """Adds a task: models with this ``task`` are then built, saved, loaded, exported and served, and fine-tuned.

    Args:
        word: the value of ``model.task``.
        load: function that returns the class of its task objects, a `kbert.tasks.Task`. It is called when a model of
            the task is used, so that what it imports costs nothing before.

    Raises:
        ValueError: the word belongs to another class.

    Example::

        register_task("duplicates", lambda: Duplicates)
    """
    if word in _TASKS and _TASKS[word]().__qualname__ != load().__qualname__:
        raise ValueError(
            f"register_task: expected a new word. Received: {word!r}, which is {_TASKS[word]().__qualname__}"
        )
    _TASKS[word] = load


def task_names() -> tuple[str, ...]:
    """The words of all tasks. Tasks from outside kbert come last."""
    return tuple(_TASKS)


def task_class(word: str) -> type:
    """The class of a task's objects, such as `kbert.tasks.Classification`."""
    if word not in _TASKS:
        raise ValueError(f"Expected one of the tasks {task_names()}. Received: {word!r}")
    return _TASKS[word]()
