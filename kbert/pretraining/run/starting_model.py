"""The model that a pre-training on text or records starts from."""

import os
from typing import TYPE_CHECKING, Any

from kbert.corpus.records import Records
from kbert.models.copies import copy_model
from kbert.models.grow import grow_model
from kbert.models.pretrainer import BertPretrainer
from kbert.pipelines.pipeline import Pipeline
from kbert.pretraining.run.new_model import dropout_of, new_model
from kbert.text.tokenizer import BertTokenizer
from kbert.text.vocabulary import check_same_tokenizer
from kbert.training.hardware import Hardware
from kbert.weights.build_pipeline import own_tokenizer
from kbert.weights.description import check_sequence_length, check_vocabulary_fits
from kbert.weights.load import load_pretrained

if TYPE_CHECKING:
    from kbert.pretraining.run.pretraining_settings import PretrainingSettings


def starting_model(
    settings: "PretrainingSettings", hardware: Hardware, keep_given: bool = False, source: Any = None
) -> tuple[BertPretrainer, BertTokenizer]:
    """The `BertPretrainer` that a pre-training starts from, and its tokenizer.

    A model that is given is returned itself, or with `keep_given` a copy. `source` is the corpus, opened.
    """
    records = source if isinstance(source, Records) else None
    task = "pretraining" if settings.next_sentence else "masked_lm"
    if isinstance(settings.init, str | os.PathLike):
        model, tokenizer = _loaded_model(settings, task, hardware, records)
    elif settings.init is None:
        tokenizer = source_tokenizer(settings, records)
        with hardware.scope():
            model = new_model(settings, tokenizer.vocabulary)
    else:
        model, tokenizer = _given_model(settings, task, source_tokenizer(settings, records))
    if model.config.causal != settings.left_to_right:
        kinds = {True: "left-to-right", False: "bidirectional"}
        raise ValueError(
            f"pretrain: `init` must be a {kinds[settings.left_to_right]} model with "
            f"left_to_right={settings.left_to_right}, whose attention suits what it predicts. "
            f"Received: a {kinds[model.config.causal]} model"
        )
    if keep_given and model is _model_of(settings.init):
        with hardware.scope():
            model = copy_model(model)
    return model, tokenizer


def source_tokenizer(settings: "PretrainingSettings", records: Records | None = None) -> BertTokenizer | None:
    """The tokenizer of the records, or of the `vocabulary` that is given; None: that of `init`."""
    if settings.reads_records:
        return (records or Records(settings.source)).tokenizer()
    if settings.vocabulary is None or isinstance(settings.vocabulary, BertTokenizer):
        return settings.vocabulary
    return BertTokenizer(settings.vocabulary, lowercase=settings.lowercase)


def _loaded_model(settings, task, hardware, records):
    with hardware.scope():
        model = load_pretrained(settings.init, task, sequence_length=settings.sequence_length, **dropout_of(settings))
        tokenizer = model.pretrained.tokenizer
        if records is not None:
            _check_records(settings, records, tokenizer)
        if settings.size is not None:
            model = grow_model(model, settings.size, seed=settings.seed)
    return model, tokenizer


def _check_records(settings, records, tokenizer):
    """Raises ValueError, with the command that helps, if `init` has another tokenizer than the records."""
    try:
        records.check_tokenizer(tokenizer)
    except ValueError as error:
        raise ValueError(
            f"pretrain: expected records with the tokenizer of `init`, {settings.init}, which its weights are for. "
            f"Received: {settings.source}. Prepare the records again: kbert records --vocabulary {settings.init} "
            f"({error})"
        ) from error


def _given_model(settings, task, source_tokenizer):
    model = _model_of(settings.init)
    if not isinstance(model, BertPretrainer) or model.task != task:
        received = getattr(model, "task", type(model).__name__)
        raise ValueError(f"pretrain: `init` must be a BertPretrainer with task {task!r}. Received: {received!r}")
    tokenizer = _same_tokenizer(own_tokenizer(settings.init), source_tokenizer, settings)
    if settings.dropout is not None:
        raise ValueError("pretrain: `dropout` is a setting of new and loaded models. Received: a model as `init`")
    check_vocabulary_fits("pretrain", tokenizer, model.config)
    check_sequence_length("pretrain", settings.sequence_length, model.config)
    return model, tokenizer


def _model_of(init):
    return init.model if isinstance(init, Pipeline) else init


def _same_tokenizer(own, other, settings):
    """The tokenizer of the model, `own`, and of the text or records, `other`; of a model without one the latter."""
    if own is None and other is None:
        raise ValueError("pretrain: a model that was not loaded with its tokenizer needs `vocabulary`.")
    if own is None or other is None:
        return own or other
    name = "pretrain: the records" if settings.reads_records else "pretrain: `vocabulary`"
    check_same_tokenizer(name, (own.vocabulary, own.settings()), (other.vocabulary, other.settings()))
    return own
