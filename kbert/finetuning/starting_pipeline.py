"""The pipeline that a fine-tuning trains, with the weights that it starts from; and its teacher."""

import hashlib
import json
import logging
import os
import pathlib
import zipfile

import numpy as np

from kbert.files import atomic_file
from kbert.finetuning.prediction_rows import rows_to_answer
from kbert.models.bert_model import BertModel
from kbert.optim.distillation_loss import DistillationLoss
from kbert.options import Arguments, Distillation, PathLike
from kbert.pipelines.pipeline import Pipeline
from kbert.pipelines.registry import task_class
from kbert.pipelines.settings import DEFAULT_SEQUENCE_LENGTH
from kbert.preprocessing.strings import string_columns
from kbert.tasks.examples import Examples
from kbert.tasks.task import Task, TeacherAnswers
from kbert.text.tokenizer import BertTokenizer
from kbert.training.made_by import identify_model
from kbert.weights.build_pipeline import build_pipeline, own_tokenizer
from kbert.weights.description import ModelDescription
from kbert.weights.load import head_labels, load_pretrained
from kbert.weights.open_checkpoint import open_checkpoint

_LOGGER = logging.getLogger("kbert")
ANSWERS = "teacher.npz"  # in the run's directory


def starting_pipeline(
    source: BertModel | Pipeline | PathLike, task: Task, settings: dict, options: Arguments
) -> Pipeline:
    """Loads or builds the model of a task, with the preprocessing and the answers that the task wants."""
    length = {} if options.sequence_length is None else {"sequence_length": options.sequence_length}
    if isinstance(source, BertModel | Pipeline):
        head = _own_head(source, task.name, settings)
        tokenizer, own_length = _own_preprocessing(source, task.name)
        model = _of_given(source, task.name, settings, options, head is not None)
        fields = {k: v for k, v in settings.items() if k not in ("num_labels", "multi_label")}
        fields |= (head or {}) | own_length | length
    else:
        model = _load(source, task.name, settings | length, options)
        tokenizer = None
        fields = {}
    pipeline = build_pipeline(model, tokenizer, **fields)
    task.check_length(pipeline.preprocessor.sequence_length)
    return pipeline


def _load(source, task: str, settings: dict, options: Arguments) -> BertModel:
    settings = dict(settings)
    own = set(ModelDescription.argument_names(task))
    if options.dropout is not None:  # the head of spans has none
        settings |= dict.fromkeys((*(own & {"dropout"}), "hidden_dropout", "attention_dropout"), options.dropout)
    stored = open_checkpoint(source)
    if task == stored.description.task and "labels" in settings:
        settings["labels"] = head_labels(stored.settings.task.labels, settings["labels"]) or settings["labels"]
    model = load_pretrained(stored, task, **settings)
    if not options.random_weights:
        return model
    fresh = ModelDescription.from_model(model).build()
    fresh.pretrained = model.pretrained
    return fresh


def _own_head(source, task: str, settings: dict) -> dict | None:
    """Labels and thresholds of a given model whose head the task trains further; None: the task needs a new head."""
    model = source.model if isinstance(source, Pipeline) else source
    if model.task != task or model.num_labels != settings.get("num_labels"):
        return None
    if "labels" not in settings:
        return {}
    if isinstance(source, Pipeline):
        own = source.settings()
    else:
        own = {} if model.pretrained is None else model.pretrained.settings.task.options()
    labels = head_labels(own.get("labels"), settings["labels"])
    if labels is None or "multi_label" not in settings:
        return labels and {"labels": labels}
    is_same = settings["multi_label"] and labels == list(own.get("labels") or ())
    return {"labels": labels, "thresholds": own.get("thresholds") if is_same else None}


def _of_given(source, task: str, settings: dict, options: Arguments, head_goes_on: bool) -> BertModel:
    """The given model where it is the task's already, otherwise a new one on its encoder."""
    model = source.model if isinstance(source, Pipeline) else source
    if options.random_weights or options.dropout is not None:
        raise ValueError("finetune: `random_weights` and `dropout` need a source that is loaded. Received: a model")
    if head_goes_on and model.multi_label == settings.get("multi_label", False):
        return model
    encoder = model if model.task == "encoder" else model.encoder
    arguments = model.own_values() if head_goes_on else {}
    arguments |= {n: settings[n] for n in ModelDescription.argument_names(task) if n in settings}
    new = task_class(task).model_class()(encoder, **arguments)
    if head_goes_on:
        new.set_weights(model.get_weights())
    else:
        _LOGGER.warning("%s: newly initialised (not in the given model)", ", ".join(task_class(task).heads))
    return new


def _own_preprocessing(source, task: str) -> tuple[BertTokenizer, dict]:
    """(tokenizer, {"sequence_length"}) of a model or pipeline; of a task with a length of its own the latter is {}."""
    tokenizer = own_tokenizer(source)
    if tokenizer is None:
        raise ValueError(
            "finetune: `source` must be a model that was loaded with its tokenizer, or a pipeline, as "
            f"kbert.build_pipeline(model, tokenizer) makes it. Received: a {type(source).__name__} without tokenizer"
        )
    if isinstance(source, Pipeline):
        length = source.settings()["sequence_length"]
    else:
        length = source.pretrained.settings.sequence_length
    own_default = task_class(task).default_length != DEFAULT_SEQUENCE_LENGTH
    return tokenizer, {} if own_default and source.task != task else {"sequence_length": length}


class Teaching:
    """What a student learns of its teacher."""

    def __init__(self, asked: Arguments, task: Task, pipeline: Pipeline, train: Examples) -> None:
        teacher, unlabelled = asked.distillation.teacher, asked.distillation.unlabelled
        self.name = identify_model(teacher)  # in settings.json
        if not isinstance(teacher, Pipeline):
            teacher = build_pipeline(teacher)
        self.examples = train  # then texts without labels
        if unlabelled is not None:
            self.examples = task.with_texts(train, _read_texts(unlabelled, task, pipeline))
        self.unlabelled = len(self.examples) - len(train)
        self.answers: TeacherAnswers | None = None  # of a dry run
        if asked.dry_run:
            return
        inputs = [teacher.fingerprint(), self.examples.fingerprint(), pipeline.settings(), task.to_dict()]
        self._key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
        outputs = None if asked.output is None else self._stored(pathlib.Path(asked.output) / ANSWERS)
        if outputs is None:
            _LOGGER.info("the teacher answers %s examples", f"{len(self.examples):,}")
            try:
                task.check_pipeline(teacher)
                outputs = task.teacher_answers(teacher, pipeline, self.examples, asked.batch_size)
            except ValueError as error:
                raise ValueError(f"finetune: `teacher`: {str(error).removeprefix('evaluate: ')}") from None
        self.answers = TeacherAnswers(outputs, len(train))

    def _stored(self, path: pathlib.Path) -> dict | None:
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


def distillation_losses(model: BertModel, distillation: Distillation) -> dict[str, DistillationLoss]:
    """The losses of a student, by output."""
    return {
        name: DistillationLoss(loss, distillation.teacher_temperature, distillation.hard_fraction)
        for name, loss in model.default_loss().items()
    }


def _read_texts(data, task: Task, pipeline: Pipeline) -> dict[str, list[str]]:
    """Texts without labels: input of the pipeline → strings."""
    columns = {name: getattr(task, name, None) or name for name in pipeline.input_names}
    if isinstance(data, str | os.PathLike):
        columns, rows = rows_to_answer(pipeline, data, None, (), trained=columns)
        return {name: [row[column] for row in rows] for name, column in columns.items()}
    texts = string_columns(data, list(columns.values()), "finetune: `unlabelled`", ())
    return {name: [text.decode() for text in column.numpy()] for name, column in zip(columns, texts, strict=True)}
