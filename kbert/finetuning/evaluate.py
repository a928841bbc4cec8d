"""The official scores of a trained pipeline, or of several together."""

import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence

from kbert.checks import check_bool, check_positive
from kbert.models.average import average_models
from kbert.pipelines.pipeline import Pipeline
from kbert.pipelines.registry import task_class
from kbert.tasks.examples import Examples
from kbert.tasks.task import Evaluation, Task
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.resolve_pipeline import resolve_pipeline

_LOGGER = logging.getLogger("kbert")


def evaluate(pipeline, task: Task, examples, batch_size: int = 32, *, return_predictions: bool = False):
    """Answers all examples and scores the answers by the task's official rules.

    Args:
        pipeline: `kbert.Pipeline`, or a source for `kbert.load_pretrained`; a list of these is an ensemble, whose
            outputs are the means of its models' (which must share vocabulary and preprocessing).
        task: a task object of the pipeline's task.
        examples: the result of ``task.read``, a file's path (of a GLUE directory the dev split), or rows in memory.
        batch_size: rows per forward pass; scores do not depend on it.
        return_predictions: whether to return the `Evaluation`, with predictions and prediction files, as well.

    Returns:
        dict of scores; with `return_predictions` (scores, `kbert.tasks.Evaluation`).

    Raises:
        TypeError: `task` is no task object, `pipeline` no pipeline and no source.
        ValueError: a pipeline of another task, a label that it does not know, incompatible models; a `batch_size`
            that is not a positive integer.
        FloatingPointError: scores that are infinite or NaN, as of a model with damaged weights.

    Example::

        kbert.evaluate(run.pipeline, task, task.read("test.csv"))["accuracy"]
    """
    if not isinstance(task, Task):
        raise TypeError(
            "evaluate: expected `task` as a task object, such as kbert.tasks.Classification(text=..., label=...). "
            f"Received: {task!r}"
        )
    check_bool(return_predictions, "evaluate: `return_predictions`")
    (batch_size,) = check_positive("evaluate", batch_size=batch_size).values()
    pipeline = pipeline if isinstance(pipeline, Pipeline) else load_ensemble(pipeline)
    result = evaluate_pipeline(pipeline, task, task.examples(examples, dev=True), batch_size)
    return (result.scores, result) if return_predictions else result.scores


def evaluate_pipeline(pipeline: Pipeline, task: Task, examples, batch_size: int = 32) -> Evaluation:
    """Evaluates one pipeline on examples, and logs the speed."""
    examples = check_examples(pipeline, task, examples)
    start = time.perf_counter()
    result = task.evaluate(pipeline, examples, batch_size=batch_size)
    seconds = time.perf_counter() - start
    _LOGGER.info(
        "%s examples evaluated in %.1f s: %.0f a second", f"{len(examples):,}", seconds, len(examples) / seconds
    )
    return result


def evaluate_dev_sets(pipeline: Pipeline, task: Task, dev_sets: Mapping[str, Examples], batch_size=32) -> Evaluation:
    """What `evaluate_pipeline` gives for the first of several sets of examples, with the metrics of the others."""
    results = {suffix: evaluate_pipeline(pipeline, task, one, batch_size) for suffix, one in dev_sets.items()}
    scores = dict(results[""].scores)
    for suffix, result in results.items():
        scores |= {name + suffix: result.scores[name] for name in task.metrics}
    return dataclasses.replace(results[""], scores=scores)


def describe_scores(scores: Mapping) -> str:
    """Scores as lines, for printing; those of each type of entities last."""
    types = {f"{name} {metric}": x for name, one in scores.get("types", {}).items() for metric, x in one.items()}
    values = {name: value for name, value in scores.items() if name != "types"} | types
    return "\n".join(f"{k}: {v}" if isinstance(v, int) else f"{k}: {v:.4f}" for k, v in values.items())


def check_examples(pipeline: Pipeline, task: Task, examples):
    """The examples with their labels as the pipeline's model has them.

    Raises:
        ValueError: a pipeline of another task or of other inputs, a label that it does not know.
    """
    task.check_pipeline(pipeline)
    task.check_examples(pipeline, examples)
    return task.for_model(examples, pipeline.settings())


def load_ensemble(sources, **options) -> Pipeline:
    """One pipeline of several models, whose outputs are the means of theirs; for one source its own pipeline.

    The threshold for "no answer" is the mean of the models'.

    Args:
        sources: a source for `kbert.load_pretrained` or a `kbert.Pipeline`, or a list of such.
        **options: of `kbert.build_pipeline`, instead of the stored ones.

    Raises:
        TypeError: neither a source nor a pipeline.
        ValueError: no model; one that was not fine-tuned; models with other preprocessing, labels or vocabulary.
    """
    alone = not isinstance(sources, Sequence) or isinstance(sources, str)
    sources = [sources] if alone else list(sources)
    if not sources:
        raise ValueError("evaluate: `pipeline` must be a model, or a list of at least one. Received: []")
    pipelines = [resolve_pipeline("evaluate: `pipeline`", one) for one in sources]
    names = [f"model {n}" if isinstance(one, Pipeline) else str(one) for n, one in enumerate(sources)]
    for name, pipeline in zip(names, pipelines, strict=True):
        try:
            task_class(pipeline.model.task)
        except ValueError as error:
            raise ValueError(f"{name}: expected a fine-tuned model. {error}") from None
    if len(pipelines) == 1 and not options and isinstance(sources[0], Pipeline):
        return pipelines[0]
    _check_alike(names, pipelines)
    settings = [pipeline.options() for pipeline in pipelines]
    fields = {name: value for name, value in settings[0].items() if name != "doc_stride"}
    if "doc_stride" in settings[0] and fields.get("window_pooling", "spans"):
        fields["doc_stride"] = settings[0]["doc_stride"]
    thresholds = [one["null_threshold"] for one in settings if one.get("null_threshold") is not None]
    if thresholds:
        fields["null_threshold"] = sum(thresholds) / len(thresholds)
    model = average_models([pipeline.model for pipeline in pipelines])
    return build_pipeline(model, pipelines[0].tokenizer, **(fields | options))


def _check_alike(names, pipelines):
    """Models of an ensemble must take the same batches, and their outputs must have the same meaning."""
    first = pipelines[0]
    for name, pipeline in zip(names, pipelines, strict=True):
        ours, theirs = first.settings() | {"null_threshold": None}, pipeline.settings() | {"null_threshold": None}
        differing = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
        if first.tokenizer.vocabulary != pipeline.tokenizer.vocabulary:
            differing.append("vocabulary")
        if differing:
            raise ValueError(
                f"{name}: expected the preprocessing and labels of {names[0]}. Received: other {differing}"
            )
