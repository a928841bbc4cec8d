"""The model that a pre-training starts from."""

import os
import pathlib

from kbert.corpus.records import Records
from kbert.models.copies import copy_model
from kbert.models.grow import grow_model
from kbert.models.pretrainer import BertPretrainer
from kbert.pipelines.pipeline import Pipeline
from kbert.pretraining.run.new_model import dropout_of, new_model
from kbert.text.same_tokenizer import check_same_tokenizer
from kbert.text.tokenizer import BertTokenizer
from kbert.weights.load import load_pretrained
from kbert.weights.source import local_source


def starting_model(settings, hardware, keep_given=False):
    """The model that a pre-training starts from, and its tokenizer.

    Args:
        keep_given: bool, whether a model that is given must stay as it is: then it is copied.

    Returns:
        (`BertPretrainer`, `BertTokenizer`); the weights are new, loaded, or those of the model given, which is returned
        itself.

    Raises:
        FileNotFoundError: no such vocabulary or model.
        ValueError: files that are damaged, a model of another task, direction or tokenizer, no tokenizer.
    """
    model, tokenizer = _model_and_tokenizer(settings, hardware)
    if model.config.causal != bool(settings.left_to_right):
        kinds = {True: "left-to-right", False: "bidirectional"}
        raise ValueError(
            f"pretrain: `init` must be a {kinds[bool(settings.left_to_right)]} model with "
            f"left_to_right={bool(settings.left_to_right)}, whose attention suits what it predicts. "
            f"Received: a {kinds[model.config.causal]} model"
        )
    if keep_given and model is _model_of(settings.init):
        with hardware.scope():
            model = copy_model(model)
    return model, tokenizer


def source_tokenizer(settings):
    """The tokenizer of the records, or of the `vocabulary` that is given; None: that of `init`."""
    if settings.reads_records:
        return Records(settings.source).tokenizer()
    if settings.vocabulary is None or isinstance(settings.vocabulary, BertTokenizer):
        return settings.vocabulary
    return BertTokenizer(settings.vocabulary, lowercase=settings.lowercase)


def _model_and_tokenizer(settings, hardware):
    task = "pretraining" if settings.next_sentence else "masked_lm"
    overrides = dropout_of(settings)
    if isinstance(settings.init, str | os.PathLike):
        with hardware.scope():
            model = load_pretrained(settings.init, task, sequence_length=settings.sequence_length, **overrides)
            _check_records(settings, model.pretrained.tokenizer)
            larger = model if settings.size is None else grow_model(model, settings.size, seed=settings.seed)
        return larger, model.pretrained.tokenizer
    tokenizer = source_tokenizer(settings)
    if settings.init is not None:
        return _given_model(settings, task, overrides, tokenizer)
    with hardware.scope():
        return new_model(settings, tokenizer.vocabulary_size), tokenizer


def _check_records(settings, tokenizer):
    """Raises ValueError, with the command that helps, if `init` has another vocabulary than the records."""
    if not settings.reads_records:
        return
    try:
        Records(settings.source).check_tokenizer(tokenizer)
    except ValueError as error:
        path = local_source(settings.init)  # of a run's checkpoint or a file of weights, it stands beside it
        there = [] if path is None else [path / "vocab.txt", path.parent / "vocab.txt"]
        vocabulary = next(filter(pathlib.Path.is_file, there), "vocab.txt of the model")
        cased = "" if tokenizer.settings()["lowercase"] else " --no-lowercase"
        raise ValueError(
            f"pretrain: expected records with the vocabulary of `init`, {settings.init}, which its weights are for. "
            f"Received: {settings.source}. Prepare the records again: kbert records --vocabulary {vocabulary}{cased}"
        ) from error


def _given_model(settings, task, dropout, tokenizer):
    model = _model_of(settings.init)
    if not isinstance(model, BertPretrainer) or model.task != task:
        received = getattr(model, "task", type(model).__name__)
        raise ValueError(f"pretrain: `init` must be a BertPretrainer with task {task!r}. Received: {received!r}")
    tokenizer = _same_tokenizer(_tokenizer_of(settings.init), tokenizer, settings)
    if dropout:
        raise ValueError("pretrain: `dropout` is a setting of new and loaded models. Received: a model as `init`")
    for name, found, least in (
        ("sequence_length", model.config.max_sequence_length, settings.sequence_length),
        ("vocabulary", model.config.vocabulary_size, tokenizer.vocabulary_size),
    ):
        if found < least:
            raise ValueError(f"pretrain: `{name}` is for at most {found:,} with this `init`. Received: {least:,}")
    return model, tokenizer


def _model_of(init):
    return init.model if isinstance(init, Pipeline) else init


def _tokenizer_of(init):
    """That of a pipeline or of a model that was loaded with one; None: any vocabulary of its size will do."""
    if isinstance(init, Pipeline):
        settings = init.settings()["tokenizer"]  # the model's own: a fill-mask pipeline reads [MASK] in the text
        return BertTokenizer(init.tokenizer.vocabulary, **settings)
    return None if init.pretrained is None else init.pretrained.tokenizer


def _same_tokenizer(own, other, settings):
    """The tokenizer of the model, `own`, and of the text or records, `other`; of a model without one the latter."""
    if own is None and other is None:
        raise ValueError("pretrain: a model that was not loaded with its tokenizer needs `vocabulary`.")
    if own is None or other is None:
        return own or other
    name = "pretrain: the records" if settings.reads_records else "pretrain: `vocabulary`"
    check_same_tokenizer(name, *((one.vocabulary, one.settings()) for one in (own, other)))
    return own
