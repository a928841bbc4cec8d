"""The teacher of a distillation: its answers to the training examples, and the losses of a student that learns them."""

import contextlib
import hashlib
import json
import logging
import os
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from kbert.aliases import ExampleData, ModelSource
from kbert.errors import UnreadableInput
from kbert.files import atomic_file
from kbert.finetuning.prediction_rows import rows_to_answer
from kbert.optim.distillation_loss import DistillationLoss
from kbert.options import Distillation
from kbert.pipelines.pipeline import Pipeline, joined_columns
from kbert.pipelines.text_columns import TextColumns
from kbert.preprocessing.strings import warn_of_empty_strings
from kbert.tasks.examples import Examples
from kbert.tasks.task import Task, TeacherAnswers
from kbert.training.run_directory import RunDirectory
from kbert.weights.build_pipeline import build_pipeline

_LOGGER = logging.getLogger("kbert")
ANSWERS = "teacher.npz"  # in the run's directory


class Teacher:
    """A fine-tuned model that answers the training examples of a student.

    Args:
        source: the teacher, a pipeline or a source for `kbert.build_pipeline`.
        task: the student's task.
        student: the student's pipeline.
        train: the labeled examples.
        unlabelled: texts without labels, as `kbert.finetune` takes them, or None.
        distillation: the student's loss.
        batch_size: rows per forward pass.

    Attributes:
        examples: the labeled examples, then the texts without labels.

    Raises:
        ValueError: a model that cannot teach this student.
    """

    def __init__(
        self,
        source: ModelSource,
        task: Task,
        student: Pipeline,
        train: Examples,
        unlabelled: ExampleData | None,
        distillation: Distillation,
        batch_size: int,
    ) -> None:
        self._pipeline = source if isinstance(source, Pipeline) else build_pipeline(source)
        self._task = task
        self._student = student
        self._distillation = distillation
        self._batch_size = batch_size
        self.examples = train
        if unlabelled is not None:
            self.examples = task.with_texts(train, _read_texts(unlabelled, task, student))
        self._labelled = len(train)
        with _errors_of_the_teacher():
            task.check_pipeline(self._pipeline)
            self._answer(self.examples.take([0]))

    def answers(self, run: RunDirectory) -> TeacherAnswers:
        """The answers to all examples; a resumed run reads those that it has stored."""
        stored = None if run.path is None else run.path / ANSWERS
        if stored is not None and stored.exists():
            try:
                with np.load(stored, allow_pickle=False) as file:
                    outputs = dict(file)
            except (ValueError, EOFError, zipfile.BadZipFile) as error:
                raise UnreadableInput(
                    f"{stored}: the teacher's stored answers are damaged ({error}). Delete the file: the same command "
                    "then asks the teacher again."
                ) from error
        else:
            _LOGGER.info("the teacher answers %s examples", f"{len(self.examples):,}")
            with _errors_of_the_teacher():
                outputs = self._answer(self.examples)
            if stored is not None and run.is_chief:
                with atomic_file(stored, "wb") as file:
                    np.savez(file, **outputs)
        self._pipeline = None  # the training needs its memory
        return TeacherAnswers(outputs, self._labelled)

    def losses(self) -> dict[str, DistillationLoss]:
        """The student's losses, by output."""
        options = (self._distillation.teacher_temperature, self._distillation.hard_fraction)
        return {name: DistillationLoss(loss, *options) for name, loss in self._student.model.default_loss().items()}

    def _answer(self, examples: Examples) -> dict[str, np.ndarray]:
        return self._task.teacher_answers(self._pipeline, self._student, examples, batch_size=self._batch_size)


@contextlib.contextmanager
def _errors_of_the_teacher() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"finetune: `teacher`: {error}") from None


def hash_of_texts(texts: Any) -> str:
    """Identifies texts in memory, as `kbert.finetune` takes them."""
    columns = {str(name): texts[name] for name in texts} if hasattr(texts, "keys") else {"": texts}
    plain = {name: [str(text) for text in column] for name, column in columns.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _read_texts(data, task: Task, pipeline: Pipeline) -> dict[str, list[str]]:
    """Texts without labels: input of the pipeline → strings."""
    names = pipeline.input_names
    fields = {name: getattr(task, name, None) or name for name in names}
    fields["text_separator"] = getattr(task, "text_separator", TextColumns.separator)
    if isinstance(data, str | os.PathLike):
        columns, rows = rows_to_answer(pipeline, data, trained=fields)
        rows = list(rows)
        return {name: [each.text(row) for row in rows] for name, each in columns.items()}
    strings = joined_columns(data, TextColumns.from_fields(fields, names), "finetune: `unlabelled`")
    warn_of_empty_strings(strings)
    return {name: [text.decode() for text in column.numpy()] for name, column in strings.items()}
