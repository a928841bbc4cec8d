"""What pre-training brings: a model against random weights of its architecture, fine-tuned alike on several tasks."""

import dataclasses
import inspect
import itertools
import json
import logging
import pathlib
from collections.abc import Mapping, Sequence

from experiments.cells import CONSTANT, WORST, Cells, model_name
from experiments.downstream import Downstream, count_examples
from experiments.processor_name import processor_name
from experiments.report import judge_row, summary, when_and_with_what, write_result
from kbert.checks import check_bool
from kbert.finetuning.finetune import finetune
from kbert.training.made_by import describe_maker


def parse_grid(words: Sequence[str]) -> list[dict]:
    """All combinations of words such as ``learning_rate=1e-4,3e-4``.

    Args:
        words: ``NAME=VALUE[,VALUE…]`` with an option of `kbert.finetune` as the name, and values as JSON writes them.

    Example::

        parse_grid(["learning_rate=1e-4,3e-4", "dropout=0"])
        # [{"learning_rate": 0.0001, "dropout": 0}, {"learning_rate": 0.0003, "dropout": 0}]
    """
    choices = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or not values or name in choices or name not in inspect.signature(finetune).parameters:
            raise ValueError(
                f"expected NAME=VALUE[,VALUE…], each option of kbert.finetune once, as learning_rate=1e-4,3e-4. "
                f"Received: {word!r}"
            )
        try:
            choices[name] = [json.loads(value) for value in values.split(",")]
        except ValueError:
            raise ValueError(f"{name}: expected numbers, true, false or null. Received: {values!r}") from None
    cells = [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]
    for cell in cells:
        finetune.arguments(None, None, None, **cell)  # raises
    return cells


_LOGGER = logging.getLogger("kbert")
RANDOM = "random weights"
_LAST = {"keep": "last", "evaluate_every": None}  # so that the number of epochs is chosen as the others are
_OWN = {"seed", "random_weights"}
_CHOICE_FRACTION = 0.2  # of the training examples, where settings are chosen on them
_SCORES = ("mlm_accuracy", "mlm_perplexity", "nsp_accuracy")  # of a pre-training


def compare_finetuning(
    init,
    tasks: Sequence[Downstream],
    output,
    *,
    grid: Sequence[Mapping],
    seeds: Sequence[int] = (0, 1, 2),
    choose_on: str = "dev",
    finetuning: Mapping | None = None,
    other_models: Sequence = (),
    results=None,
    name: str | None = None,
    recipe: str = "experiments",
    dry_run: bool = False,
) -> dict:
    """Fine-tunes a model and random weights of its architecture, each with the settings that are best for it.

    For each task and each of the two, every setting of the grid is tried with the first seed; the best one is then run
    with all seeds, and means are compared (`experiments.report`). Runs are `Cells` in ``cells/`` of the output:
    the same call resumes after a kill, and other calls may share the directory. The result is written after every task.

    Args:
        init: the model, as `kbert.finetune` takes it.
        grid: options of `kbert.finetune` to choose from.
        choose_on: "dev", as the paper, or "train": on a fifth of the training examples, held out from choosing only.
        finetuning: further options of `kbert.finetune`.
        other_models: other models, rows for comparison without one of random weights.
        results: directory for the four files of `write_result`; None: ``results`` in the output.
        name: of the model in the table, whose files are ``finetuning-NAME``; None: the last part of `init`.
        recipe: the program that errors name.
        dry_run: train and write nothing, but count.

    Returns:
        dict like that of `experiments.run_table`. Of a dry run: ``left``, {task: {model: the number of
        fine-tunings that are left to do}}, and ``first``, the estimate of the first of them, None where none is left.
    """
    check_bool(dry_run, "compare_finetuning: `dry_run`")
    if choose_on not in ("dev", "train"):
        raise ValueError(f'compare_finetuning: `choose_on` must be "dev" or "train". Received: {choose_on!r}')
    if not grid or not seeds or not tasks:
        raise ValueError(
            "compare_finetuning: expected at least one setting, seed and task. "
            f"Received: {len(grid)}, {len(seeds)} and {len(tasks)}"
        )
    for cell in grid:
        options = dict(finetuning or {}) | dict(cell)
        if set(options) & _OWN:
            raise ValueError(
                f"compare_finetuning: {sorted(_OWN)} are set for each fine-tuning, expected other options. "
                f"Received: {options}"
            )
        finetune.arguments(None, None, None, **options)  # raises before anything runs
    name = name or model_name(init)
    starts = {name: (init, False), RANDOM: (init, True)} | {model_name(one): (one, False) for one in other_models}
    if len(starts) < 2 + len(other_models):
        raise ValueError(
            f"compare_finetuning: expected models of different names. Received: {[name, *map(str, other_models)]}"
        )
    cells = Cells(pathlib.Path(output) / "cells", recipe)
    if dry_run:
        return _plan(cells, tasks, starts, grid, seeds, choose_on, finetuning or {})
    rows = {start: {} for start in (*starts, CONSTANT)}
    for task in tasks:
        for start, (source, random_weights) in starts.items():
            shared = _shared(task, finetuning or {}, random_weights)
            rows[start][task.name] = found = _scored(cells, source, task, shared, grid, seeds, choose_on)
            _LOGGER.info("%s, %s: %.1f %s", task.name, start, found["mean"], found["options"])
        rows[CONSTANT][task.name] = summary([cells.constant_answer(task)])
        settings = _settings(init, tasks, grid, seeds, choose_on, finetuning)
        result = _result(name, starts, rows, settings, cells)
        write_result(result, pathlib.Path(output) / "results" if results is None else results)
    return result


def _shared(task, finetuning, random_weights):
    """Options of all fine-tunings of a model on a task."""
    return dict(task.options) | dict(finetuning) | _LAST | {"random_weights": random_weights}


def _chooser(task, choose_on):
    """The task as the settings are chosen on it."""
    if choose_on == "dev":
        return task
    train, dev = task.train.split(_CHOICE_FRACTION)
    return dataclasses.replace(task, train=train, dev=dev)


def _plan(cells, tasks, starts, grid, seeds, choose_on, finetuning):
    """What is left to do, and the estimate of the first fine-tuning."""
    left, first = {task.name: {} for task in tasks}, None
    for task in tasks:
        chooser = _chooser(task, choose_on)
        for start, (source, random_weights) in starts.items():
            shared = _shared(task, finetuning, random_weights) | {"seed": seeds[0]}
            tried = [(chooser, shared | dict(cell)) for cell in grid]
            missing = [each for each in tried if not cells.path(source, *each).exists()]
            if missing:  # which setting is best is not known yet
                left[task.name][start] = len(missing) + len(seeds) - (choose_on == "dev")
            else:
                scores = [cells.score(source, *each)["percent"] for each in tried]
                best = shared | dict(grid[scores.index(max(scores))])
                each = [(task, best | {"seed": seed}) for seed in seeds]
                missing = [one for one in each if not cells.path(source, *one).exists()]
                left[task.name][start] = len(missing)
            if missing and first is None:
                first = source, *missing[0]
    if first is None:
        return {"left": left, "first": None}
    source, task, options = first
    estimate = finetune(str(source), task.task, task.train, task.dev, dry_run=True, **options).metrics
    return {"left": left, "first": estimate}


def _scored(cells, source, task, shared, grid, seeds, choose_on):
    """The scores of all seeds with the settings of the grid that are best with the first."""
    chooser = _chooser(task, choose_on)
    tried = [cells.score(source, chooser, shared | dict(cell) | {"seed": seeds[0]})["percent"] for cell in grid]
    best = dict(grid[tried.index(max(tried))])
    each = [cells.score(source, task, shared | best | {"seed": seed}) for seed in seeds]
    values = [one["percent"] for one in each]
    if WORST in values:
        raise FloatingPointError(
            f"{task.name}, {source}: expected settings that train. Received: {best}, which diverged with seed "
            f"{seeds[values.index(WORST)]}"
        )
    shared = set.intersection(*(set(one["scores"]) for one in each))
    metrics = {metric: summary([one["scores"][metric] for one in each]) for metric in sorted(shared)}
    tried = [None if percent == WORST else percent for percent in tried]
    minutes = sum(one["minutes"] for one in each) / len(each)
    found = {"options": best, "grid": [{"options": dict(c), "value": v} for c, v in zip(grid, tried, strict=True)]}
    return summary(values) | found | {"metrics": metrics, "minutes": minutes}


def _result(name, starts, rows, settings, cells):
    entries = []
    for start, scores in rows.items():
        source, random_weights = starts.get(start, (None, True))
        pretrained = {} if random_weights else _describe_pretraining(source)
        entries.append({"name": start, "series": None, "pretrained": pretrained, "scores": scores, "paper": {}})
    said = judge_row(entries[0], entries[1], lambda column: 1)  # the paper's claim
    return {
        "table": f"finetuning-{name}",
        "title": f"{name}, fine-tuned, and random weights of its architecture",
        "source": "the paper's claim",
        "columns": list(entries[0]["scores"]),
        "rows": entries,
        "paper_rows": {},
        "sentences": [said],
        "settings": settings,
        **when_and_with_what(cells.used.values()),
    }


def _settings(init, tasks, grid, seeds, choose_on, finetuning):
    processor, cores = processor_name()
    names = dict.fromkeys(name for cell in grid for name in cell)
    return {
        "init": model_name(init),
        "examples": count_examples(tasks),
        "grid": {name: list(dict.fromkeys(cell[name] for cell in grid if name in cell)) for name in names},
        "seeds": list(seeds),
        "choose_on": choose_on,
        "finetuning": {name: value for name, value in (finetuning or {}).items() if value is not None},
        "processor": processor,
        "cores": cores,
    }


def _describe_pretraining(source):
    """Held-out scores of a pre-trained model, as far as it says, with the steps and minutes of all runs behind it."""
    maker = describe_maker(source) or {}
    found = {key: maker["metrics"][key] for key in _SCORES if key in maker.get("metrics", ())}
    runs = []
    while "steps" in maker.get("metrics", ()):
        runs.append(maker["metrics"])
        maker = maker.get("inputs", {}).get("init", {}).get("made_by") or {}  # the run that it continued
    return found | {key: sum(run[key] for run in runs) for key in ("steps", "minutes")} if runs else {}
