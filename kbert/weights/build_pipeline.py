"""The pipeline around a model in memory or a stored one, by its task."""

import os
from typing import Any

from kbert.models.bert_model import BertModel
from kbert.pipelines.pipeline import Pipeline
from kbert.pipelines.registry import task_class, task_names
from kbert.pipelines.settings import ModelSettings
from kbert.text.tokenizer import BertTokenizer, check_tokenizer
from kbert.weights.description import check_sequence_length, check_vocabulary_fits, default_settings
from kbert.weights.load import load_pretrained
from kbert.weights.provenance import trained_columns
from kbert.weights.source import check_source


def build_pipeline(
    model: BertModel | str | os.PathLike, tokenizer: BertTokenizer | None = None, *, name: str | None = None, **options
) -> Pipeline:
    """Puts preprocessor and answers around a model.

    An omitted option keeps its stored value, in ``model.pretrained`` of a model that `kbert.load_pretrained` returned,
    or else has the default named below. None counts as omitted where the option cannot be None. An option that the
    model's task does not take is an error.

    | task | options besides ``sequence_length`` |
    |---|---|
    | classification | ``labels, pair, thresholds, window_pooling, doc_stride`` |
    | regression | ``pair, window_pooling, doc_stride`` |
    | multiple_choice | |
    | span | ``doc_stride, max_query_length, n_best, max_answer_length, null_threshold`` |
    | tagging | ``labels, doc_stride, tagging_output`` |
    | masked_lm, pretraining | ``max_masks, masking, top_k`` |
    | next_sentence | ``pair`` |
    | encoder | ``pair, pooling, normalize`` |
    | similarity | |

    Args:
        model: a kbert model, or a source for `kbert.load_pretrained`. One with a masked-LM head fills masks, an encoder
            gives embeddings.
        tokenizer: None: the one that the model was loaded with.
        name: name of the pipeline.
        sequence_length: S of the preprocessor, in tokens. 128 by default (span: 384), or less if the model's position
            table is shorter.
        labels: list of N strings; "0", "1", ... by default.
        pair: whether the texts come in pairs; False by default (next sentence: always True).
        thresholds: N numbers in (0, 1), for a multi-label classifier. A label is on if its probability exceeds its
            threshold. None, the default: 0.5 each.
        window_pooling: "mean" or "max". Long texts are split into windows, over which a classifier's or regressor's
            logits are pooled. None, the default: long texts are truncated.
        doc_stride: tokens from the start of one window of a long text to the next; 128 by default. For a tagger half a
            window, which is its maximum. A classifier or regressor takes it only with `window_pooling`.
        max_query_length: tokens to which a question is truncated; 64 by default.
        n_best: how many answers to return; 20 by default (see `SpanAnswers`).
        max_answer_length: tokens of the longest answer; 30 by default.
        null_threshold: by how much the score of "no answer" must exceed the best answer's. None, the default: every
            question is answered.
        tagging_output: what a tagger returns: the "tags" of all words (the default) or "entities".
        max_masks: how many [MASK]s of a text are answered at most; 8 by default.
        masking: dict of arguments of `kbert.pretraining.TokenMasking` for the texts of `fit`; the paper's by default.
        top_k: how many tokens to propose for each [MASK]; 5 by default.
        pooling: how an encoder's hidden states become an embedding: "mean" (the default), "max", "cls" or "pooler".
        normalize: whether embeddings are scaled to length 1; False by default.

    Returns:
        `Pipeline`.

    Raises:
        TypeError: neither a kbert model nor a source, or no `kbert.BertTokenizer`.
        FileNotFoundError: no such source.
        ValueError: an option that is not as described, unknown, or of another task. No tokenizer, or one that does not
            fit the model. A sequence longer than the position table, `top_k` beyond the vocabulary, or a model without
            a task.

    Example::

        pipeline = kbert.build_pipeline("runs/reviews")
        pipeline = kbert.build_pipeline(kbert.BertClassifier(config), kbert.BertTokenizer("vocab.txt"))
    """
    if isinstance(model, str | os.PathLike):
        model = load_pretrained(model)
    _check_model(model)
    fields = _chosen(model.task, options)
    tokenizer = _tokenizer(model, tokenizer)
    try:
        settings = _stored(model).replace(**fields)
        settings.task.check_options(fields)
    except ValueError as error:
        raise ValueError(f"build_pipeline: {error}") from None
    check_sequence_length("build_pipeline", settings.sequence_length, model.config)
    preprocessor, answers = settings.task.parts(model, tokenizer, settings.sequence_length)
    return Pipeline(preprocessor, model, answers, name=name, trained_columns=trained_columns(model))


def resolve_pipeline(what: str, source: Pipeline | str | os.PathLike) -> Pipeline:
    """A pipeline as it is, or a stored model's; messages begin with `what`, such as "export: `pipeline`"."""
    if isinstance(source, Pipeline):
        return source
    check_source(what, source, "a kbert.Pipeline")
    return build_pipeline(source)


def own_tokenizer(source: BertModel | Pipeline) -> BertTokenizer | None:
    """That of a pipeline's model, or of a model that was loaded with one; None: the model has none."""
    if isinstance(source, Pipeline):
        settings = source.settings()["tokenizer"]  # the model's: a fill-mask pipeline itself reads [MASK] in the text
        return BertTokenizer(source.tokenizer.vocabulary, **settings)
    return None if source.pretrained is None else source.pretrained.tokenizer


def _check_model(model) -> None:
    if not isinstance(model, BertModel):
        parts = ("pipeline.model", "model")  # what a run and a pipeline have
        hints = [f"; give its `{part}`" for part in parts if hasattr(model, part.partition(".")[0])]
        raise TypeError(
            "build_pipeline: `model` must be a kbert model, the path of one or its name on the Hugging Face hub. "
            f"Received: {type(model).__name__}{hints[0] if hints else ''}"
        )


def _chosen(word: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options that are not omitted; an error if the task does not take one of them."""
    taken = ("sequence_length", *task_class(word).option_names())
    can_be_off = {name for task in map(task_class, task_names()) for name in task.option_names(can_be_off=True)}
    fields = {name: value for name, value in options.items() if value is not None or name in can_be_off}
    if not_taken := sorted(set(fields) - set(taken)):
        raise ValueError(f"build_pipeline: a {word} model takes the options {list(taken)}. Received: {not_taken}")
    return fields


def _tokenizer(model: BertModel, tokenizer: BertTokenizer | None) -> BertTokenizer:
    if tokenizer is None and model.pretrained is not None:
        tokenizer = model.pretrained.tokenizer
    if tokenizer is None:
        raise ValueError("build_pipeline: pass `tokenizer`; this model was not loaded with one.")
    check_tokenizer(tokenizer, "build_pipeline")
    check_vocabulary_fits("build_pipeline", tokenizer, model.config)
    return tokenizer


def _stored(model: BertModel) -> ModelSettings:
    """The settings that are stored with the model, or the defaults of its task."""
    if model.pretrained is None:
        return default_settings(model.task, model.config)
    stored = model.pretrained.settings
    return stored.replace(sequence_length=min(stored.sequence_length, model.config.max_sequence_length))
