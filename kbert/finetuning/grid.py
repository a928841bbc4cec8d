"""The paper's choice of hyperparameters on dev, on any task, and on all of GLUE (section 4.1 and appendix A.3)."""

import functools
import gc
import itertools
import logging
import shutil
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kbert.aliases import ExampleData, ModelSource, PathLike
from kbert.checks import check_directory
from kbert.files import write_directory, write_json
from kbert.finetuning.finetune import finetune
from kbert.options import (
    Count,
    Distillation,
    Fraction,
    FractionBelowOne,
    Machine,
    Natural,
    Optimization,
    Positive,
    Precision,
    Strategy,
    checked,
)

if TYPE_CHECKING:
    from kbert.aliases import Callbacks
    from kbert.tasks.task import Task

_LOGGER = logging.getLogger("kbert")
GRID = "grid.json"


@checked
def finetune_grid(
    source: PathLike,
    task: "Task",
    train: ExampleData,
    dev: FractionBelowOne | ExampleData | None,
    output: PathLike,
    *,
    learning_rates: Sequence[Positive] = (5e-5, 3e-5, 2e-5),
    epochs: Sequence[Positive] = (2, 3, 4),
    batch_sizes: Sequence[Count] = (16, 32),
    seeds: Sequence[Natural] = (0,),
    steps: Count | None = None,
    warmup_proportion: Fraction = 0.1,
    sequence_length: Count | None = None,
    dropout: FractionBelowOne | None = None,
    lora_rank: Count | None = None,
    class_weight: Literal["balanced"] | Mapping | None = None,
    group_by_length: bool = False,
    random_weights: bool = False,
    evaluate_every: Literal["epoch"] | Count | None = "epoch",
    keep: Literal["best", "last"] = "best",
    patience: Count | None = None,
    more_dev: Mapping[str, ExampleData] | None = None,
    teacher: ModelSource | None = None,
    unlabelled: ExampleData | None = None,
    distillation: Distillation = Distillation(),
    optimization: Optimization = Optimization(),
    strategy: Strategy = "auto",
    precision: Precision = "auto",
    machine: Machine = Machine(),
    checkpoint_every: Count = 200,
    log_every: Count = 50,
    callbacks: "Callbacks" = (),
    overwrite: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Fine-tunes with every combination of these settings, and keeps the model that is best on `dev`.

    The defaults are the paper's values. Each combination is a run in a folder of its own, which resumes; finished ones
    are not repeated when the same call is made again.

    Args:
        source: the path or the name of a model: each run starts from it anew.
        task, train, dev: see `kbert.finetune`.
        output: directory that receives a folder for each run, ``model/`` (that of the best run, a model directory)
            and ``grid.json`` (what is returned).
        learning_rates, epochs, batch_sizes, seeds: the values to try.
        steps: weight updates of each run; overrides `epochs`.
        warmup_proportion, sequence_length, dropout, lora_rank, class_weight: see `kbert.finetune`.
        group_by_length, random_weights, evaluate_every, keep, patience, more_dev: see `kbert.finetune`.
        teacher, unlabelled, distillation, optimization, strategy, precision, machine: see `kbert.finetune`.
        checkpoint_every, log_every, callbacks: see `kbert.finetune`.
        overwrite: replace runs with other settings and restart unfinished ones. Finished runs of this call are kept.
        dry_run: train nothing: ``runs`` is the number that is left to do, ``first`` the estimate of the first of them.

    Returns:
        dict: ``best``, the settings, folder and dev scores of the best run (of equal ones the first); ``runs``, the
        same of all of them; ``metric``, the one that decided; ``settings``, of each combination without the seed the
        ``mean`` of the dev scores and, of several seeds, their ``deviation``; ``constant_answer``, ``train_examples``.

    Raises:
        ValueError: `source` is a model in memory; no values to try; no `dev`; as
            `kbert.finetune`.
        FileExistsError: a folder has a run with other settings or examples, and `overwrite` is not given.

    Source: Devlin et al. 2018, section 4.1 and appendix A.3.

    Example::

        grid = kbert.finetuning.finetune_grid("google-bert/bert-base-uncased", task, train, dev, "runs/reviews-grid")
        grid["best"]["learning_rate"], kbert.load_pretrained("runs/reviews-grid")
    """
    from kbert.finetuning.example_sets import ExampleSets
    from kbert.training.logs import is_chief  # not above: it loads Keras
    from kbert.weights.step_paths import METRICS, MODEL

    points = [
        {"learning_rate": rate, "epochs": number, "batch_size": size, "seed": seed}
        for rate, number, size, seed in itertools.product(learning_rates, epochs, batch_sizes, seeds)
    ]
    sets = ExampleSets.read(task, train, dev, {})
    if not points or not sets.dev:
        raise ValueError(
            "finetune_grid: expected at least one value of each setting, and `dev` to choose by. "
            f"Received: {len(points)} combinations and dev={'examples' if sets.dev else 'None'}"
        )
    output = check_directory(output, "finetune_grid: `output`")
    folders = {_folder(point): point for point in points}
    run_once = functools.partial(
        finetune,
        source,
        task,
        sets.train,
        sets.dev[""],
        steps=steps,
        warmup_proportion=warmup_proportion,
        sequence_length=sequence_length,
        dropout=dropout,
        lora_rank=lora_rank,
        class_weight=class_weight,
        group_by_length=group_by_length,
        random_weights=random_weights,
        evaluate_every=evaluate_every,
        keep=keep,
        patience=patience,
        more_dev=more_dev,
        teacher=teacher,
        unlabelled=unlabelled,
        distillation=distillation,
        optimization=optimization,
        strategy=strategy,
        precision=precision,
        machine=machine,
        checkpoint_every=checkpoint_every,
        log_every=log_every,
        callbacks=callbacks,
        overwrite=overwrite,
        reuse=True,
    )
    left = [folder for folder in folders if not (output / folder / METRICS).exists()]
    if dry_run:
        first = run_once(output / left[0], **folders[left[0]], dry_run=True).metrics if left else None
        return {"runs": len(left), "first": first}
    done = {}
    for folder in sorted(folders, key=left.__contains__):  # finished ones first: of other settings they are an error
        run = run_once(output / folder, **folders[folder])
        done[folder] = run.metrics
        writes = is_chief(run.pipeline.model)
        del run
        gc.collect()  # models are in reference cycles; free the last one before the next is built
        _LOGGER.info("%s: %s", folder, _numbers(done[folder]["dev"]))
    completed, _ = task.for_training(sets.train)  # whose metrics suit the examples
    runs = [point | {"folder": folder, "dev": done[folder]["dev"]} for folder, point in folders.items()]
    result = _summarise(completed, runs)
    result |= {name: done[result["best"]["folder"]][name] for name in ("constant_answer", "train_examples")}
    if writes:
        copy = functools.partial(shutil.copytree, output / result["best"]["folder"] / MODEL, dirs_exist_ok=True)
        write_directory(output / MODEL, copy)
        write_json(output / GRID, result)
    return result


def _folder(point: Mapping[str, float]) -> str:
    return "rate-{learning_rate:g}-epochs-{epochs:g}-batch-{batch_size}-seed-{seed}".format(**point)


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if isinstance(value, int | float)}


def _summarise(task, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The best run, and mean and deviation of each combination over its seeds."""
    metric = task.metrics[0]
    choose = min if metric in task.lower_is_better else max
    settings = []
    for key, group in itertools.groupby(runs, key=lambda run: (run["learning_rate"], run["epochs"], run["batch_size"])):
        scores = [_numbers(run["dev"]) for run in group]
        values = {name: [each[name] for each in scores] for name in scores[0]}
        settings.append(
            {
                **dict(zip(("learning_rate", "epochs", "batch_size"), key, strict=True)),
                "mean": {name: statistics.mean(each) for name, each in values.items()},
                "deviation": {name: statistics.stdev(each) for name, each in values.items() if len(each) > 1},
            }
        )
    best = choose(runs, key=lambda run: run["dev"][metric])
    return {"metric": metric, "best": best, "runs": runs, "settings": settings}


@checked
def finetune_glue(
    source: PathLike,
    directory: PathLike,
    output: PathLike,
    *,
    tasks: tuple[str, ...] = (),
    learning_rates: tuple[Positive, ...] = (5e-5,),
    epochs: tuple[Positive, ...] = (3.0,),
    batch_sizes: tuple[Count, ...] = (32,),
    seeds: tuple[Natural, ...] = (0,),
    steps: Count | None = None,
    train_examples: Count | None = None,
    sequence_length: Count | None = None,
    dropout: FractionBelowOne | None = None,
    group_by_length: bool = False,
    optimization: Optimization = Optimization(),
    strategy: Strategy = "auto",
    precision: Precision = "auto",
    machine: Machine = Machine(),
    dry_run: bool = False,
) -> dict[str, Any]:
    """Fine-tunes on the tasks of GLUE as in section 4.1 of the paper, each by `finetune_grid`.

    The paper: batches of 32, 3 epochs, learning rates of 5e-5, 4e-5, 3e-5 and 2e-5 for base and large; several seeds
    with a different head, order and dropout. The run that is best on dev is kept. A killed call goes on when it is made
    again.

    Args:
        source: the path or the name of a model.
        directory: of the official download, with a folder for each task.
        output: directory that receives the result of `finetune_grid` in a folder for each task, and ``glue.json``.
        tasks: names such as ``SST-2``; none: all whose folder exists.
        learning_rates, epochs, batch_sizes, seeds: the values to try.
        steps: weight updates of each run; overrides `epochs`.
        train_examples: train on that many of each task, drawn at random, the same ones for every seed; None: all.
        sequence_length, dropout, group_by_length, optimization, strategy, precision, machine: see `kbert.finetune`,
            whose other options ``kbert finetune glue --name SST-2`` has.
        dry_run: train nothing: of each task the number of runs that are left, and an estimate of the first.

    Returns:
        dict: ``tasks``, {name: what `finetune_grid` returns}; ``average``, the paper's in percent, of each first metric
        but WNLI's, with MNLI on both dev sets; None if a task is missing.

    Raises:
        FileNotFoundError, ValueError: an unknown task, or a file that is missing or damaged; as `finetune_grid`.

    Source: Devlin et al. 2018, section 4.1 and table 1.

    Example::

        kbert.finetuning.finetune_glue("saved_models/kbert-tiny", "glue", "runs/glue", tasks=("SST-2",), seeds=(0, 1))
    """
    from kbert.tasks.glue_benchmark.tasks import average, glue, present_tasks
    from kbert.training.hardware import choose_hardware

    names = [task.name for task in present_tasks(directory, tasks)]
    examples = {name: _glue_examples(glue(name), directory, train_examples) for name in names}  # before any training
    output = check_directory(output, "finetune_glue: `output`")
    results = {}
    for name, (train, dev) in examples.items():
        results[name] = finetune_grid(
            source,
            glue(name),
            train,
            dev.pop(""),
            output / name,
            learning_rates=learning_rates,
            epochs=epochs,
            batch_sizes=batch_sizes,
            seeds=seeds,
            dry_run=dry_run,
            more_dev=dev,
            steps=steps,
            sequence_length=sequence_length,
            dropout=dropout,
            group_by_length=group_by_length,
            optimization=optimization,
            strategy=strategy,
            precision=precision,
            machine=machine,
        )
    if dry_run:
        return {"tasks": results}
    result = {"tasks": results, "average": average(results)}
    if choose_hardware(strategy, precision, machine.xla, machine.logical_cpus).is_chief:
        write_json(output / "glue.json", result)
    return result


def _glue_examples(task: "Task", directory: PathLike, count: int | None):
    """Training texts, and the texts to evaluate on: {"": dev, "_mm": the other dev set of MNLI}."""
    train, dev = task.read(directory), task.dev_sets(directory)
    for examples in (train, *dev.values()):
        if examples.skipped:
            _LOGGER.info("%s: %d rows without all their cells are skipped", examples.path, examples.skipped)
    if count is not None and count < len(train):
        _, train = train.split(count)
    return train, dev
