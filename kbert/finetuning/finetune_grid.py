"""The paper's choice of hyperparameters on dev, on any task: `kbert.finetuning.finetune_grid`."""

import functools
import itertools
import logging
import os
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

from kbert.checks import check_directory, differing
from kbert.files import read_json, write_directory, write_json
from kbert.finetuning.finetune import finetune
from kbert.finetuning.finetuning_options import FinetuningOptions
from kbert.finetuning.identify import identify_model
from kbert.tasks.task import Task
from kbert.training.made_by import INPUTS, METRICS, MODEL, SETTINGS

_LOGGER = logging.getLogger("kbert")
GRID = "grid.json"


def finetune_grid(
    source,
    task: Task,
    train,
    dev,
    output,
    *,
    learning_rates: Sequence[float] = (5e-5, 3e-5, 2e-5),
    epochs: Sequence[float] = (2, 3, 4),
    batch_sizes: Sequence[int] = (16, 32),
    **options,
) -> dict[str, Any]:
    """Fine-tunes with every combination of these settings, and keeps the model that is best on `dev`.

    Each combination is a run of `kbert.finetune` in a folder of `output`. The same call resumes a killed grid: finished
    runs are not repeated, and the unfinished one goes on exactly. A call with further values adds their runs. `dev` has
    then chosen the settings: report scores on examples that neither training nor choice has seen.

    Args:
        source: path or name of a model, as for `kbert.load_pretrained`.
        task, train, dev, **options: see `kbert.finetune`; the first of the task's metrics decides.
        output: directory. It receives the folders, ``model/`` (the best one, which ``load_pretrained(output)`` loads)
            and ``grid.json`` (what is returned).
        learning_rates, epochs, batch_sizes: the values to try.

    Returns:
        dict: ``best``, the settings, folder and dev scores of the best run (of equal ones the first); ``runs``, the
        same of all of them; ``metric``, the one that decided.

    Raises:
        TypeError: `source` is a model in memory, which the first run would change.
        ValueError: no values to try, no `dev`; as `kbert.finetune`.
        FileExistsError: a folder has a run with other settings or examples.

    Source: Devlin et al. 2018, section 4.1 and appendix A.3.

    Example::

        grid = kbert.finetuning.finetune_grid("google-bert/bert-base-uncased", task, train, dev, "runs/reviews-grid")
        grid["best"]["learning_rate"], kbert.load_pretrained("runs/reviews-grid")
    """
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            "finetune_grid: expected `source` as the path or the name of a model, from which each run starts anew. "
            f"Received: {type(source).__name__}"
        )
    points = [
        {"learning_rate": rate, "epochs": number, "batch_size": size}
        for rate, number, size in itertools.product(learning_rates, epochs, batch_sizes)
    ]
    if not points or dev is None:
        raise ValueError(
            "finetune_grid: expected at least one value of each setting, and `dev` to choose by. "
            f"Received: {len(points)} combinations and dev={'None' if dev is None else 'examples'}"
        )
    train, dev = task.examples(train), task.examples(dev, dev=True)
    output = check_directory(output, "finetune_grid: `output`")
    runs = []
    for point in points:
        folder = "rate-{learning_rate:g}-epochs-{epochs:g}-batch-{batch_size}".format(**point)
        path = output / folder
        if (path / METRICS).exists():
            _check_finished(path, source, task, train, dev, FinetuningOptions(**point, **options))
        else:
            output.mkdir(parents=True, exist_ok=True)
            finetune(source, task, train, dev, path, **point, **options)
        runs.append(point | {"folder": folder, "dev": read_json(path / METRICS)["dev"]})
        _LOGGER.info("%s: %s", folder, runs[-1]["dev"])
    metric = task.metrics[0]
    choose = min if metric in task.lower_is_better else max
    best = choose(runs, key=lambda run: run["dev"][metric])
    copy = functools.partial(shutil.copytree, pathlib.Path(output / best["folder"] / MODEL), dirs_exist_ok=True)
    write_directory(output / MODEL, copy)
    result = {"metric": metric, "best": best, "runs": runs}
    write_json(output / GRID, result)
    return result


def _check_finished(path, source, task, train, dev, options):
    """Raises FileExistsError unless a finished run is the one that would be started."""
    there = read_json(path / SETTINGS)
    expected = {"init": identify_model(source)} | task.to_dict() | options.to_dict()
    changed = differing({name: there.get(name) for name in expected}, expected)
    examples = {"train": train.fingerprint(), "dev": dev.fingerprint()}
    changed += differing(read_json(path / INPUTS)["examples"], examples)
    if changed:
        raise FileExistsError(
            f"{path} holds a finished run with other {', '.join(changed)}. Give another `output` to finetune_grid, or "
            "delete the folder."
        )
