"""The official scores of a trained pipeline, or of several together."""

import dataclasses
import itertools
import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kbert.checks import differing
from kbert.finetuning.evaluate import not_as_stored
from kbert.models.average import average_models
from kbert.options import Arguments, fixed_by_model, to_json
from kbert.pipelines.pipeline import Pipeline
from kbert.pipelines.registry import task_class
from kbert.tasks.examples import Examples
from kbert.tasks.task import Evaluation, Task
from kbert.training.hardware import choose_hardware
from kbert.training.made_by import describe_maker, identify_model
from kbert.training.run_directory import open_run
from kbert.weights.build_pipeline import build_pipeline, resolve_pipeline
from kbert.weights.origin import is_replaced, origin_of, reading_fields
from kbert.weights.source import local_source

_LOGGER = logging.getLogger("kbert")
_GROUPS = 30  # labels whose scores are printed
_NAME_WIDTH = 40  # characters of their names


def run_evaluation(asked: Arguments) -> dict[str, Any] | tuple[dict[str, Any], Evaluation]:
    """What `kbert.evaluate` does, in order: load, read, check, answer and score, write."""
    options = not_as_stored(asked)
    pipeline = asked.pipeline
    if not isinstance(pipeline, Pipeline) or options:
        machine = asked.machine
        with choose_hardware(machine.strategy, machine.precision, logical_cpus=machine.logical_cpus).scope():
            pipeline = _load_ensemble(asked.pipeline, **options)
    task, sets = _read(asked, pipeline)
    try:
        task.check_pipeline(pipeline)
        for examples in sets.values():
            task.check_examples(pipeline, examples)
    except ValueError as error:
        raise ValueError(f"evaluate: {error}") from None
    sets = {suffix: task.for_model(examples, pipeline.settings()) for suffix, examples in sets.items()}
    run = None
    if asked.output is not None:
        sources = asked.pipeline if isinstance(asked.pipeline, list) else [asked.pipeline]
        names = [identify_model(source) for source in sources]
        path = asked.examples if isinstance(asked.examples, str | os.PathLike) else sets[""].path
        run = open_run(
            asked.output,
            asked.settings() | to_json({"pipeline": names, "task": _description(task), "examples": path}),
            asked.overwrite,
            inputs={"examples": [examples.path for examples in sets.values() if examples.path] or None},
            recipe="kbert.evaluate",
            examples={f"examples{suffix}": examples.fingerprint() for suffix, examples in sets.items()},
        )
    result = _evaluate_sets(pipeline, task, sets, asked.batch_size)
    if run is not None:
        if result.write:
            result.write(run.path)
        run.finish(result.scores)
    return (result.scores, result) if asked.return_predictions else result.scores


def _description(task: Task) -> dict:
    """Of the settings of the task those that an evaluation asks for."""
    fixed = fixed_by_model(type(task))
    return {name: value for name, value in task.to_dict().items() if name not in fixed}


def _read(asked: Arguments, pipeline: Pipeline) -> tuple[Task, dict[str, Examples]]:
    """The task object, and the examples by the suffix of their metrics."""
    task = asked.task
    trained = {}
    fields = {}
    if asked.examples is None:
        raise TypeError("evaluate: missing a required argument: `examples`")
    if task is None or isinstance(task, Mapping):
        fields = dict(task or {})
        kind = task_class(pipeline.model.task)
        if fixed := sorted(fields.keys() & fixed_by_model(kind)):
            raise ValueError(
                f"evaluate: the model decides {fixed}. Give `window_pooling` or `null_threshold` of kbert.evaluate, or "
                "the pipeline of kbert.build_pipeline(model, …) with other options"
            )
        trained = _as_trained(asked.pipeline, pipeline, fields)
        task = kind.from_options({"labels": pipeline.settings().get("labels")} | trained | fields)
    if not isinstance(task, Task):
        raise TypeError(
            "evaluate: expected `task` as a task object, such as kbert.tasks.Classification(text=..., label=...). "
            f"Received: {task!r}"
        )
    if not isinstance(asked.examples, str | os.PathLike):
        return task, {"": task.examples(asked.examples, dev=True)}
    try:
        return task, task.dev_sets(asked.examples)
    except ValueError as error:
        taken = {name: value for name, value in trained.items() if name not in fields}
        if not taken or trained.get("format", "table") != "table":
            raise
        shown = ", ".join(f"{name}={value!r}" for name, value in taken.items())
        said = str(error).removesuffix(".")
        raise ValueError(f"{said}. Fields of the task that are not given are as in the training: {shown}") from error


_COLUMNS = {"text", "text_pair", "negative", "label", "prompt", "choices"}


def _as_trained(source, pipeline: Pipeline, fields: Mapping) -> dict:
    """How the files were read that the first model was fine-tuned on; a format, or negatives, if no column is given."""
    first = source[0] if isinstance(source, list) and source else source
    run = describe_maker(local_source(first) or first) if isinstance(first, str | os.PathLike) else None
    if isinstance(first, Pipeline) and (origin := origin_of(pipeline.model)) is not None:
        run = origin.run if origin.path is None or is_replaced(origin) else describe_maker(origin.path)
    trained = reading_fields(run)
    if fields.keys() & _COLUMNS:
        trained.pop("format", None)
        trained.pop("negative", None)
    if not isinstance(fields.get("label", ""), str):
        trained.pop("label_separator", None)  # each label has a column of its own
    if "negative" in fields:
        trained.pop("label", None)  # a similarity has one of them
    return trained


def _evaluate(pipeline: Pipeline, task: Task, examples: Examples, batch_size: int) -> Evaluation:
    start = time.perf_counter()
    result = task.evaluate(pipeline, examples, batch_size=batch_size)
    seconds = time.perf_counter() - start
    _LOGGER.info(
        "%s examples evaluated in %.1f s: %.0f a second", f"{len(examples):,}", seconds, len(examples) / seconds
    )
    return result


def _evaluate_sets(pipeline: Pipeline, task: Task, sets: Mapping[str, Examples], batch_size: int) -> Evaluation:
    """The evaluation of the first of several sets of examples, with the metrics of the others."""
    results = {suffix: _evaluate(pipeline, task, examples, batch_size) for suffix, examples in sets.items()}
    scores = dict(results[""].scores)
    for suffix, result in results.items():
        scores |= {name + suffix: result.scores[name] for name in task.metrics if name in result.scores}
    return dataclasses.replace(results[""], scores=scores)


def describe_scores(scores: Mapping) -> str:
    """Formats scores as lines for printing. The scores of each label or entity type come last."""
    numbers = {name: value for name, value in scores.items() if not isinstance(value, Mapping)}
    return "\n".join([*(f"{name}: {_shown(value)}" for name, value in numbers.items()), *describe_groups(scores)])


def describe_groups(scores: Mapping) -> list[str]:
    """The lines of a table with the scores of each label, or of each type of entities."""
    lines = []
    for groups in scores.values():
        if not isinstance(groups, Mapping) or not groups:
            continue
        first = dict(itertools.islice(groups.items(), _GROUPS))
        width = max(len(name[:_NAME_WIDTH]) for name in first)
        header = next(iter(first.values()))
        lines.append(" " * width + "".join(f"  {name}" for name in header))
        for name, values in first.items():
            cells = (f"  {_shown(value):>{len(column)}}" for column, value in values.items())
            lines.append(f"{name[:_NAME_WIDTH]:<{width}}" + "".join(cells))
        if len(groups) > len(first):
            lines.append(f"and {len(groups) - len(first):,} more")
    return lines


def _shown(value: float) -> str:
    return f"{value}" if isinstance(value, int) else f"{value:.4f}"


def _load_ensemble(sources, **options) -> Pipeline:
    """One pipeline of several models, whose outputs are the means of theirs; for one source its own pipeline.

    The threshold for "no answer" is the mean of the models'.
    """
    alone = not isinstance(sources, Sequence) or isinstance(sources, str)
    sources = [sources] if alone else list(sources)
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
