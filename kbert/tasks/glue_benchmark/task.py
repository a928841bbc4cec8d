"""The tasks of GLUE as task objects."""

import dataclasses

from kbert.checks import check_path
from kbert.tasks.classification import Classification
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, GlueTask, glue_name
from kbert.tasks.regression import Regression


def check_pipeline(name, pipeline, task: GlueTask) -> None:
    """Raises a ValueError that names the model unless it fits the task: type, labels, inputs, whole texts."""
    model = pipeline.model
    settings = pipeline.settings()
    expected = "regression" if task.regression else "classification"
    if model.task != expected or (task.labels and sorted(task.labels) != sorted(settings.get("labels"))):
        raise ValueError(
            f"{name}: expected a model for {task.name}, {expected} with labels {task.labels}. "
            f"Received: {model.task} with labels {settings.get('labels')}"
        )
    if pipeline.preprocessor.makes_windows:
        raise ValueError(f"{name}: expected a model of whole texts. Received: one trained with --window-pooling")
    if settings.get("pair", False) != task.pair:
        raise ValueError(f"{name}: expected a model for {'pairs' if task.pair else 'single texts'}, as {task.name} has")


class _Glue:
    """A task with the columns, labels and files of the official download."""

    def __repr__(self):
        return f'kbert.tasks.glue("{self.glue}")'

    def read(self, path, split="train"):
        """The examples of a split: "train", "dev", or "dev_mm" of MNLI.

        `path` is the GLUE directory, the task's own folder in it, or a file of it.
        """
        definition = GLUE_TASKS[self.glue]
        is_file = check_path(path, "read: `path`").is_file()
        return definition.read_file(path) if is_file else definition.read(path, split)

    def read_dev(self, path):
        """The dev split. MNLI's is the matched one."""
        return self.read(path, "dev")

    def dev_sets(self, path):
        """The dev set of a directory, and for MNLI the mismatched one, whose suffix is "_mm"."""
        splits = GLUE_TASKS[self.glue].dev_splits
        splits = splits[:1] if check_path(path, "read: `path`").is_file() else splits
        return {split.removeprefix("dev"): self.read(path, split) for split in splits}

    def check_pipeline(self, pipeline):
        check_pipeline("evaluate", pipeline, GLUE_TASKS[self.glue])

    def settings(self, train):
        return super().settings(train) | {"window_pooling": None}  # whatever the model was trained with before


@dataclasses.dataclass(frozen=True, repr=False)
class GlueClassification(_Glue, Classification):
    """A task of GLUE with classes."""

    glue: str = ""


@dataclasses.dataclass(frozen=True, repr=False)
class GlueRegression(_Glue, Regression):
    """STS-B."""

    glue: str = ""


def glue(name: str) -> Classification | Regression:
    """A task of GLUE, with its official columns, labels, files and metrics.

    Args:
        name: one of ``CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI``, in any case.

    Returns:
        A task object. Its ``read(path, split)`` takes the GLUE directory and "train", "dev" or, for MNLI, "dev_mm".
            Where examples are to evaluate on, the directory alone means its dev split.

    Raises:
        ValueError: no such task.

    Example::

        task = kbert.tasks.glue("MRPC")
        train, dev = task.read("glue", "train"), task.read("glue", "dev")
        run = kbert.finetune("saved_models/kbert-tiny", task, train, dev, "runs/mrpc", epochs=3, learning_rate=1e-3)
    """
    name = glue_name(name)
    if name not in GLUE_TASKS:
        raise ValueError(f"glue: expected one of {list(GLUE_TASKS)}. Received: {name!r}")
    definition = GLUE_TASKS[name]
    return (GlueRegression if definition.regression else GlueClassification)(
        text=definition.text,
        text_pair=definition.text_pair,
        label=definition.label,
        metrics=definition.metrics,
        glue=name,
    )
