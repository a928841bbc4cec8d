"""Several models as one pipeline."""

from collections.abc import Sequence
from typing import Any

from kbert.checks import differing
from kbert.models.average import average_models
from kbert.pipelines.pipeline import Pipeline
from kbert.pipelines.registry import task_class
from kbert.weights.build_pipeline import build_pipeline, resolve_pipeline


def load_ensemble(sources: Sequence, **options: Any) -> Pipeline:
    """One pipeline of several models, whose outputs are the means of theirs; for one source its own pipeline.

    The threshold for "no answer" is the mean of the models'.
    """
    if not sources:
        raise ValueError("evaluate: `pipeline` must be a model, or a list of at least one. Received: []")
    pipelines = [resolve_pipeline("evaluate: `pipeline`", source) for source in sources]
    names = [f"model {n}" if isinstance(source, Pipeline) else str(source) for n, source in enumerate(sources)]
    for name, pipeline in zip(names, pipelines, strict=True):
        if not task_class(pipeline.task).is_finetuned:
            raise ValueError(f"{name}: expected a fine-tuned model. Received: {pipeline.task!r}, which has no examples")
    if len(pipelines) == 1 and not options and isinstance(sources[0], Pipeline):
        return pipelines[0]
    _check_alike(names, pipelines)
    settings = [pipeline.options() for pipeline in pipelines]
    thresholds = [each["null_threshold"] for each in settings if each.get("null_threshold") is not None]
    threshold = {"null_threshold": sum(thresholds) / len(thresholds)} if thresholds else {}
    fields = settings[0] | threshold | options
    if "window_pooling" in fields and fields["window_pooling"] is None:
        fields.pop("doc_stride", None)  # texts are truncated
    model = average_models([pipeline.model for pipeline in pipelines])
    return build_pipeline(model, pipelines[0].tokenizer, **fields)


def _check_alike(names: list[str], pipelines: list[Pipeline]) -> None:
    """Models of an ensemble must take the same batches, and their outputs must have the same meaning."""
    first = pipelines[0]
    for name, pipeline in zip(names, pipelines, strict=True):
        others = differing(*(each.settings() | {"null_threshold": None} for each in (first, pipeline)))
        if first.tokenizer.vocabulary != pipeline.tokenizer.vocabulary:
            others.append("vocabulary")
        if others:
            raise ValueError(f"{name}: expected the preprocessing and labels of {names[0]}. Received: other {others}")
