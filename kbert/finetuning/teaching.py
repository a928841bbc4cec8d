"""What a student learns of its teacher: the teacher's answers, which a run keeps, and the losses that take them."""

import contextlib
import functools
import hashlib
import json
import logging
import os
import pathlib
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from kbert.files import atomic_file
from kbert.finetuning.prediction_rows import rows_to_answer
from kbert.models.bert_model import BertModel
from kbert.optim.distillation_loss import DistillationLoss
from kbert.options import Arguments, Distillation
from kbert.pipelines.pipeline import Pipeline, joined_columns
from kbert.pipelines.text_columns import TextColumns
from kbert.preprocessing.strings import warn_of_empty_strings
from kbert.tasks.examples import Examples
from kbert.tasks.task import Task, TeacherAnswers
from kbert.training.made_by import identify_model
from kbert.training.run_directory import RunDirectory
from kbert.weights.build_pipeline import build_pipeline

_LOGGER = logging.getLogger("kbert")
ANSWERS = "teacher.npz"  # in the run's directory


class Teaching:
    """What a student learns of its teacher: checked when it is made, answered by `ask`."""

    def __init__(self, asked: Arguments, task: Task, pipeline: Pipeline, train: Examples) -> None:
        teacher, unlabelled = asked.distillation.teacher, asked.distillation.unlabelled
        self.name = identify_model(teacher)  # in settings.json
        if not isinstance(teacher, Pipeline):
            teacher = build_pipeline(teacher)
        self.examples = train  # then texts without labels
        if unlabelled is not None:
            self.examples = task.with_texts(train, _read_texts(unlabelled, task, pipeline))
        self.unlabelled = len(self.examples) - len(train)
        self.answers: TeacherAnswers | None = None  # before `ask`, and of a dry run
        if asked.dry_run:
            return
        self._answer = functools.partial(task.teacher_answers, teacher, pipeline, batch_size=asked.batch_size)
        with _errors_of_the_teacher():
            task.check_pipeline(teacher)
            self._answer(self.examples.take([0]))  # one that cannot is refused before anything is written

    def ask(self, run: RunDirectory | None) -> None:
        """The teacher answers all examples, unless an earlier start of the run has its answers."""
        outputs = None if run is None else _stored(run.path / ANSWERS)
        if outputs is None:
            _LOGGER.info("the teacher answers %s examples", f"{len(self.examples):,}")
            with _errors_of_the_teacher():
                outputs = self._answer(self.examples)
            if run is not None and run.is_chief:
                with atomic_file(run.path / ANSWERS, "wb") as file:
                    np.savez(file, **outputs)
        self._answer = None  # the teacher's memory is for the training now
        self.answers = TeacherAnswers(outputs, len(self.examples) - self.unlabelled)


def _stored(path: pathlib.Path) -> dict[str, np.ndarray] | None:
    """The answers of an earlier start of a run, which has the same teacher and examples; None: there are none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None


@contextlib.contextmanager
def _errors_of_the_teacher() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"finetune: `teacher`: {error}") from None


def hash_of_texts(texts: Any) -> str:
    """What identifies texts in memory, as `Distillation` takes them."""
    columns = {str(name): texts[name] for name in texts} if hasattr(texts, "keys") else {"": texts}
    plain = {name: [str(text) for text in column] for name, column in columns.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def distillation_losses(model: BertModel, distillation: Distillation) -> dict[str, DistillationLoss]:
    """The losses of a student, by output."""
    return {
        name: DistillationLoss(loss, distillation.teacher_temperature, distillation.hard_fraction)
        for name, loss in model.default_loss().items()
    }


def _read_texts(data, task: Task, pipeline: Pipeline) -> dict[str, list[str]]:
    """Texts without labels: input of the pipeline → strings."""
    names = pipeline.input_names
    given = {name: value for name, value in vars(task).items() if value is not None}
    fields = {name: name for name in names} | {
        name: given[name] for name in (*names, "text_separator") if name in given
    }
    if isinstance(data, str | os.PathLike):
        columns, rows = rows_to_answer(pipeline, data, None, (), trained=fields)
        texts = [{name: each.text(row) for name, each in columns.items()} for row in rows]
        return {name: [row[name] for row in texts] for name in names}
    strings = joined_columns(data, TextColumns.from_fields(fields, names), "finetune: `unlabelled`")
    warn_of_empty_strings(strings)
    return {name: [text.decode() for text in column.numpy()] for name, column in strings.items()}
