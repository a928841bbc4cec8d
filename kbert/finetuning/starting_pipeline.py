"""The pipeline that a fine-tuning trains, with the weights that it starts from."""

import dataclasses
import logging

from kbert.aliases import ModelSource
from kbert.finetuning.example_sets import ExampleSets
from kbert.models.bert_model import BertModel
from kbert.models.quantized_layers import check_not_quantized
from kbert.pipelines.pipeline import Pipeline
from kbert.pipelines.registry import task_class
from kbert.pipelines.settings import DEFAULT_SEQUENCE_LENGTH
from kbert.tasks.task import Task
from kbert.text.tokenizer import unknown_fraction, warn_of_unknown
from kbert.weights.build_pipeline import build_pipeline, own_tokenizer
from kbert.weights.description import ModelDescription
from kbert.weights.load import head_labels, load_pretrained
from kbert.weights.source import open_checkpoint

_LOGGER = logging.getLogger("kbert")
_FIRST_EXAMPLES = 200  # whose fraction of [UNK] is looked at


def starting_pipeline(
    source: ModelSource,
    task: Task,
    examples: ExampleSets,
    sequence_length: int | None,
    dropout: float | None,
    random_weights: bool,
) -> tuple[Pipeline, Task, ExampleSets]:
    """Loads or builds the model of a task, with its preprocessing and answers.

    Returns:
        (pipeline, the task as the examples complete it, the examples that can be learned with the pipeline's labels).
    """
    given, (task, train) = task, task.for_training(examples.train)
    settings = task.settings(train)
    for dev in examples.dev.values():
        task.check_dev(dev, settings)
    examples = dataclasses.replace(examples, train=train).for_model(task, settings)
    keeps_order = given.labels is None  # thresholds without labels are in the order of the head
    length = {} if sequence_length is None else {"sequence_length": sequence_length}
    if isinstance(source, BertModel | Pipeline):
        if random_weights or dropout is not None:
            raise ValueError("finetune: `random_weights` and `dropout` need a source that is loaded. Received: a model")
        pipeline = _of_given(source, task.name, settings, length, keeps_order)
    else:
        model = _load(source, task.name, settings | length, dropout, random_weights, keeps_order)
        pipeline = build_pipeline(model)  # `load_pretrained` keeps its settings with the model
    check_not_quantized(pipeline.model)
    examples = examples.for_model(task, pipeline.settings())  # in the order of a head that is reused
    first = examples.train.take(range(min(len(train), _FIRST_EXAMPLES)))
    warn_of_unknown(unknown_fraction(pipeline.tokenizer, first.columns.values()), train.path or "the training examples")
    return pipeline, task, examples


def _of_given(source, task: str, settings: dict, length: dict, keeps_order: bool) -> Pipeline:
    model = source.model if isinstance(source, Pipeline) else source
    if model.members:
        raise ValueError("finetune: `source` must be a single model. Received: an ensemble; take one of its members")
    tokenizer = own_tokenizer(source)
    if tokenizer is None:
        raise ValueError(
            "finetune: `source` must be a model that was loaded with its tokenizer, or a pipeline, as "
            f"kbert.build_pipeline(model, tokenizer) makes it. Received: a {type(source).__name__} without tokenizer"
        )
    given = source if isinstance(source, Pipeline) else build_pipeline(source)
    head = _own_head(given, task, settings, keeps_order)
    model = _with_head(model, task, settings, head is not None)
    fields = {k: v for k, v in settings.items() if k not in ("num_labels", "multi_label")} | (head or {})
    if given.task == task or task_class(task).default_length == DEFAULT_SEQUENCE_LENGTH:
        length = {"sequence_length": given.settings()["sequence_length"]} | length
    return build_pipeline(model, tokenizer, **fields, **length)


def _load(source, task: str, settings: dict, dropout, random_weights: bool, keeps_order: bool) -> BertModel:
    own = set(ModelDescription.argument_names(task))
    if dropout is not None:  # the head of spans has none
        settings |= dict.fromkeys((*(own & {"dropout"}), "hidden_dropout", "attention_dropout"), dropout)
    stored = open_checkpoint(source)
    if task == stored.description.task and "labels" in settings:
        labels = head_labels(stored.settings.task.labels, settings["labels"]) or settings["labels"]
        settings |= {"labels": labels} | _thresholds(settings, labels, keeps_order)
    model = load_pretrained(stored, task, **settings)
    if not random_weights:
        return model
    fresh = ModelDescription.from_model(model).build()
    fresh.pretrained = model.pretrained
    return fresh


def _thresholds(settings: dict, labels: list[str], keeps_order: bool) -> dict:
    """The task's thresholds, if it has any, in the order of the labels of a head."""
    if "thresholds" not in settings:
        return {}
    own = settings["thresholds"]
    if keeps_order or len(own) != len(labels):  # the latter is an error, found later
        return {"thresholds": own}
    return {"thresholds": [own[settings["labels"].index(label)] for label in labels]}


def _own_head(given: Pipeline, task: str, settings: dict, keeps_order: bool) -> dict | None:
    """Labels and thresholds of a pipeline whose head the task trains further; None: the task needs a new head."""
    if given.task != task or given.model.num_labels != settings.get("num_labels"):
        return None
    if "labels" not in settings:
        return {}
    own = given.settings()
    labels = head_labels(own["labels"], settings["labels"])
    if labels is None or "multi_label" not in settings:
        return labels and {"labels": labels}
    is_same = settings["multi_label"] and labels == list(own["labels"])
    stored = {"thresholds": own.get("thresholds") if is_same else None}
    return {"labels": labels} | stored | _thresholds(settings, labels, keeps_order)


def _with_head(model: BertModel, task: str, settings: dict, head_goes_on: bool) -> BertModel:
    """The given model where it is the task's already, otherwise a new one on its encoder."""
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
