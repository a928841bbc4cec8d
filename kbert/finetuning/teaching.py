"""The teacher of a fine-tuning: which answers it gives to the training examples, computed once and kept in the run."""

import hashlib
import json
import logging
import os
import pathlib
import zipfile

import numpy as np

from kbert.files import atomic_file
from kbert.finetuning.identify import identify_model
from kbert.finetuning.prediction_rows import rows_to_answer
from kbert.models.bert_model import BertModel
from kbert.optim.distillation_loss import DistillationLoss
from kbert.pipelines.pipeline import Pipeline
from kbert.preprocessing.strings import string_columns
from kbert.tasks.examples import Examples
from kbert.tasks.task import TeacherAnswers
from kbert.weights.build_pipeline import build_pipeline

_LOGGER = logging.getLogger("kbert")
ANSWERS = "teacher.npz"  # in the run's directory


class Teaching:
    """What a student learns of its teacher.

    Args:
        asked: arguments of `kbert.finetune`, with a teacher.
        task: the task object, after `for_training`.
        pipeline: the student.
        train: the examples with labels, with the student's numbers of them.

    Attributes:
        name: how settings.json names the teacher.
        unlabelled: the number of texts without labels.
        examples: those with labels, then those without.
        answers: `TeacherAnswers`; None of a dry run.

    Raises:
        ValueError: a teacher of another task, of other labels, or that reads other texts.
    """

    def __init__(self, asked, task, pipeline: Pipeline, train: Examples):
        self.name = identify_model(asked.teacher)
        teacher = asked.teacher if isinstance(asked.teacher, Pipeline) else build_pipeline(asked.teacher)
        self.examples = train
        if asked.unlabelled is not None:
            self.examples = task.with_texts(train, _read_texts(asked.unlabelled, task, pipeline))
        self.unlabelled = len(self.examples) - len(train)
        self.answers = None
        if asked.dry_run:
            return
        about = [teacher.fingerprint(), self.examples.fingerprint(), pipeline.settings(), task.to_dict()]
        self._key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        outputs = None if asked.output is None else self._stored(pathlib.Path(asked.output) / ANSWERS)
        if outputs is None:
            _LOGGER.info("the teacher answers %s examples", f"{len(self.examples):,}")
            try:
                task.check_pipeline(teacher)
                outputs = task.teacher_answers(teacher, pipeline, self.examples, asked.batch_size)
            except ValueError as error:
                raise ValueError(f"finetune: `teacher`: {str(error).removeprefix('evaluate: ')}") from None
        self.answers = TeacherAnswers(outputs, len(train))

    def _stored(self, path):
        """The answers of an earlier start of this run; None: there are none."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return None
        return arrays if str(arrays.pop("key", "")) == self._key else None

    def write(self, directory: pathlib.Path) -> None:
        """Keeps the answers for a run that is resumed."""
        with atomic_file(directory / ANSWERS, "wb") as file:
            np.savez(file, key=np.array(self._key), **self.answers.outputs)


def distillation_losses(model: BertModel, distillation) -> dict[str, DistillationLoss]:
    """The losses of a student, by output.

    Args:
        distillation: `kbert.options.Distillation`.
    """
    return {
        name: DistillationLoss(loss, distillation.teacher_temperature, distillation.hard_share)
        for name, loss in model.default_loss().items()
    }


def _read_texts(data, task, pipeline) -> dict[str, list[str]]:
    """Texts without labels: input of the pipeline → strings."""
    columns = {name: getattr(task, name, None) or name for name in pipeline.input_names}
    if isinstance(data, str | os.PathLike):
        columns, rows = rows_to_answer(pipeline, data, None, (), trained=columns)
        return {name: [row[column] for row in rows] for name, column in columns.items()}
    texts = string_columns(data, list(columns.values()), "finetune: `unlabelled`", ())
    return {name: [text.decode() for text in some.numpy()] for name, some in zip(columns, texts, strict=True)}
