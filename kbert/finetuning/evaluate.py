"""The official scores of a trained pipeline, or of several together: `kbert.evaluate`."""

import dataclasses
import logging
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from kbert.aliases import ExampleData, ModelSource, PathLike
from kbert.options import NOT_RECORDED, Count, Precision, Strategy, checked, fixed_by_model, record, to_json

if TYPE_CHECKING:
    from kbert.pipelines.pipeline import Pipeline
    from kbert.tasks.examples import Examples
    from kbert.tasks.task import Evaluation, Task

_LOGGER = logging.getLogger("kbert")


@checked
def evaluate(
    pipeline: ModelSource | list[ModelSource],
    task: Union["Task", Mapping, None] = None,
    examples: ExampleData | None = None,
    batch_size: Count = 32,
    *,
    window_pooling: Literal["stored", "mean", "max", "off"] = "stored",
    null_threshold: Literal["stored", "off"] | float = "stored",
    strategy: Strategy = "auto",
    precision: Precision = "auto",
    output: Annotated[PathLike | None, NOT_RECORDED] = None,
    overwrite: Annotated[bool, NOT_RECORDED] = False,
) -> dict[str, Any]:
    """Answers all examples and scores the answers by the task's official rules.

    Args:
        pipeline: `kbert.Pipeline`, or a source for `kbert.load_pretrained`; a list of these is an ensemble, whose
            outputs are the means of its models' (which must share vocabulary and preprocessing).
        task: a task object of the pipeline's task, or a dict with the fields that differ from the training of the
            (first) model. The dict may also contain the task's name, as ``task``, but no field that the model has
            fixed, such as its labels. Defaults to the columns and formats of the training.
        examples: the result of ``task.read``, a file's path (of a GLUE directory the dev sets), or rows in memory.
        batch_size: rows per forward pass; scores do not depend on it.
        window_pooling: instead of the stored one: how the windows of a long text are pooled; "off": texts are
            truncated.
        null_threshold: instead of the stored one, of "no answer" (of an ensemble the mean of its models'); "off": every
            question is answered.
        strategy, precision: see `kbert.finetune`; for models that are loaded.
        output: directory for metrics.json and, for questions and tagged words, the official prediction files.
        overwrite: replace what is in `output`.

    Returns:
        dict of scores.

    Raises:
        TypeError: `task` is not a task object, or `pipeline` is neither a pipeline nor a source.
        ValueError: a pipeline of another task, a label that it does not know, incompatible models, in a dict a field
            that the model has fixed.
        FileExistsError: `output` holds other files.
        FloatingPointError: scores that are infinite or NaN, as of a model with damaged weights.

    Example::

        kbert.evaluate(run.pipeline, task, task.read("test.csv"))["accuracy"]
        kbert.evaluate("runs/reviews", examples="test.csv")["accuracy"]
    """
    settings = record(evaluate, locals())
    from kbert.finetuning.ensembles import load_ensemble
    from kbert.pipelines.pipeline import Pipeline
    from kbert.training.hardware import choose_hardware
    from kbert.training.made_by import identify_model
    from kbert.training.run_directory import open_run

    if examples is None:
        raise TypeError("evaluate: missing a required argument: `examples`")
    sources = list(pipeline) if isinstance(pipeline, list | tuple) else [pipeline]
    options = not_as_stored(window_pooling=window_pooling, null_threshold=null_threshold)
    if not isinstance(pipeline, Pipeline) or options:
        with choose_hardware(strategy, precision).scope():
            pipeline = load_ensemble(sources, **options)
    task, sets = evaluation_sets(pipeline, task, examples, trained_like=sources[0])
    run = None
    if output is not None:
        settings["pipeline"] = [identify_model(source) for source in sources]
        settings["task"] = {n: value for n, value in task.to_dict().items() if n not in fixed_by_model(type(task))}
        settings["examples"] = examples if isinstance(examples, str | os.PathLike) else sets[""].path
        run = open_run(
            output,
            to_json(settings),
            overwrite,
            inputs={"examples": [one.path for one in sets.values() if one.path] or None},
            recipe="kbert.evaluate",
            examples={f"examples{suffix}": one.fingerprint() for suffix, one in sets.items()},
        )
    result = evaluate_sets(pipeline, task, sets, batch_size)
    if run is not None:
        if result.write:
            result.write(run.path)
        run.finish(result.scores)
    return result.scores


def not_as_stored(**options: Any) -> dict[str, Any]:
    """Options as `kbert.build_pipeline` takes them, without those that are as stored."""
    return {name: None if value == "off" else value for name, value in options.items() if value != "stored"}


def evaluation_sets(
    pipeline: "Pipeline", task: Any, examples: Any, trained_like: Any = None
) -> "tuple[Task, dict[str, Examples]]":
    """The task object, and the examples by the suffix of their metrics, as `evaluate` takes both.

    Columns and formats are as in the training of `trained_like`. Defaults to the pipeline.
    """
    task, sets = _read(task, examples, pipeline, pipeline if trained_like is None else trained_like)
    try:
        task.check_pipeline(pipeline)
        for one in sets.values():
            task.check_examples(pipeline, one)
    except ValueError as error:
        raise ValueError(f"evaluate: {error}") from None
    return task, {suffix: task.for_model(one, pipeline.settings()) for suffix, one in sets.items()}


def _read(task, examples, pipeline: "Pipeline", trained_like) -> "tuple[Task, dict[str, Examples]]":
    """The task object, and the examples by the suffix of their metrics."""
    from kbert.pipelines.registry import task_class
    from kbert.tasks.task import Task

    trained: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    if task is None or isinstance(task, Mapping):
        fields = dict(task or {})
        kind = task_class(pipeline.model.task)
        if (name := fields.pop("task", kind.name)) != kind.name:
            raise ValueError(f"evaluate: expected a {name} model. Received: a {kind.name} model")
        if fixed := sorted(fields.keys() & fixed_by_model(kind)):
            raise ValueError(
                f"evaluate: the model decides {fixed}. Give `window_pooling` or `null_threshold` of kbert.evaluate, or "
                "the pipeline of kbert.build_pipeline(model, …) with other options"
            )
        trained = _as_trained(trained_like, kind.name, fields)
        task = kind.from_options({"labels": pipeline.settings().get("labels")} | trained | fields)
    if not isinstance(task, Task):
        raise TypeError(
            "evaluate: expected `task` as a task object, such as kbert.tasks.Classification(text=..., label=...). "
            f"Received: {task!r}"
        )
    if not isinstance(examples, str | os.PathLike):
        return task, {"": task.examples(examples, dev=True)}
    try:
        return task, task.dev_sets(examples)
    except ValueError as error:
        taken = {name: value for name, value in trained.items() if name not in fields}
        if not taken or trained.get("format", "table") != "table":
            raise
        shown = ", ".join(f"{name}={value!r}" for name, value in taken.items())
        said = str(error).removesuffix(".")
        raise ValueError(f"{said}. Fields of the task that are not given are as in the training: {shown}") from error


_COLUMNS = {"text", "text_pair", "negative", "label", "prompt", "choices"}


def _as_trained(first, task: str, fields: Mapping) -> dict[str, Any]:
    """How the files were read that the first model was fine-tuned on; a format, or negatives, if no column is given."""
    from kbert.weights.provenance import describe_maker, maker_of, reading_fields, trained_task
    from kbert.weights.source import local_source

    is_stored = isinstance(first, str | os.PathLike)
    run = describe_maker(local_source(first) or first) if is_stored else maker_of(getattr(first, "model", first))
    trained = reading_fields(run) if trained_task(run).get("task") == task else {}
    if fields.keys() & _COLUMNS:
        trained.pop("format", None)
        trained.pop("negative", None)
    if not isinstance(fields.get("label", ""), str):
        trained.pop("label_separator", None)  # each label has a column of its own
    if "negative" in fields:
        trained.pop("label", None)  # a similarity has one of them
    return trained


def evaluate_sets(
    pipeline: "Pipeline", task: "Task", sets: "Mapping[str, Examples]", batch_size: int = 32
) -> "Evaluation":
    """The evaluation of the first of several sets of examples, with the metrics of the others."""
    results = {}
    for suffix, examples in sets.items():
        start = time.perf_counter()
        results[suffix] = task.evaluate(pipeline, examples, batch_size=batch_size)
        seconds = time.perf_counter() - start
        count, speed = f"{len(examples):,}", len(examples) / seconds
        _LOGGER.info("%s examples evaluated in %.1f s: %.0f a second", count, seconds, speed)
    scores = dict(results[""].scores)
    for suffix, result in results.items():
        scores |= {name + suffix: result.scores[name] for name in task.metrics if name in result.scores}
    return dataclasses.replace(results[""], scores=scores)
