"""The flags on how files are read: columns, and options of a task object, by default as in a model's training."""

import argparse

from kbert.command_line.flag_table import FLAGS

_INPUTS = ("text", "text_pair", "question", "context", "prompt")
_COLUMNS = {name: f"{name}_column" for name in ("text", "text_pair", "label", "prompt")}
_OTHERS = ("format", "scheme", "tag_column", "context", "version", "label_separator", "metrics")
_FLAGS = _COLUMNS | {"choices": "choice_columns"} | {name: name for name in _OTHERS}  # option → flag


def add_trained_flags(parser: argparse.ArgumentParser, *names: str, **overrides: dict) -> None:
    """Flags of which those that are not given, None, are as the model was trained; `overrides` as for `add_flags`."""
    for name in names:
        own = FLAGS[name] | overrides.get(name.replace("-", "_"), {})
        about, _, default = own["help"].rstrip(")").partition(" (default: ")
        default = own.get("default", default or None)
        default = " ".join(default) if isinstance(default, list) else default
        known = "as the model was trained" + ("" if default is None else f", or {default}")
        parser.add_argument(f"--{name}", **own | {"default": None, "help": f"{about} (default: {known})"})


def columns_of(arguments: argparse.Namespace) -> dict:
    """Input of a pipeline → column, for those that flags name."""
    columns = {name: getattr(arguments, f"{name}_column") for name in _INPUTS}
    return {name: column for name, column in columns.items() if column is not None}


def task_options(arguments: argparse.Namespace) -> dict:
    """The options of a task object that flags give, as `Task.from_options` takes them."""
    values = {option: getattr(arguments, flag, None) for option, flag in _FLAGS.items()}
    return {option: value for option, value in values.items() if value is not None}


def read_as_trained(arguments: argparse.Namespace, task: str):
    """A task object, and what its `dev_sets` reads from --data; options without a flag are as in the model's training.

    Args:
        arguments: ``model``, a list, whose first one's training counts; ``data``; ``task``, a name of GLUE or None; the
            flags of `add_trained_flags`.
        task: the models' task.

    Raises:
        ValueError: as `Task.dev_sets`, with the flags that were not given; an option that the task does not have.
    """
    from kbert.pipelines.registry import task_class
    from kbert.serving.exported_pipeline import trained_options
    from kbert.tasks.glue_benchmark.task import glue

    if arguments.task:
        task = glue(arguments.task)
        return task, task.dev_sets(arguments.data)
    given, trained = task_options(arguments), trained_options(arguments.model[0])
    if given.keys() & {*_COLUMNS, "choices"}:
        trained.pop("format", None)  # these are columns of a table
    task = task_class(task).from_options(trained | given)
    try:
        return task, task.dev_sets(arguments.data)
    except ValueError as error:
        taken = {_FLAGS[name]: value for name, value in trained.items() if name not in given}
        if not taken or trained.get("format", "table") != "table":
            raise
        shown = " ".join(f"--{flag.replace('_', '-')} {_shown(value)}" for flag, value in taken.items())
        said = str(error).removesuffix(".")
        raise ValueError(f"{said}. Flags that are not given are as in the training of the model: {shown}") from error


def _shown(value):
    return " ".join(map(str, value)) if isinstance(value, list) else value
