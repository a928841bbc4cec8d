"""Fine-tunings of which only the scores are kept: one small file each, made once."""

import datetime
import gc
import hashlib
import json
import logging
import math
import pathlib
import re
from collections.abc import Mapping

from experiments.bilstm_encoder import bilstm_encoder
from experiments.downstream import Downstream
from kbert.files import read_json, write_json
from kbert.finetuning.finetune import finetune
from kbert.training.made_by import MODEL, identify_inputs
from kbert.versions import versions
from kbert.weights.source import checkpoint_step, is_step_checkpoint, local_source

_LOGGER = logging.getLogger("kbert")
WORST = -math.inf  # of a fine-tuning that diverged: any other is better
CONSTANT = "most frequent answer"  # the row with the figures of `Cells.constant_answer`


class Cells:
    """A directory of scores: a file for each fine-tuning, named by the hash of all that decides it.

    A fine-tuning writes nothing but that file, when it is done: a killed program repeats at most one.

    Attributes:
        used: the contents of the files that were made or read, by their names.
    """

    def __init__(self, directory, recipe: str = "experiments"):
        self.directory = pathlib.Path(directory)
        self.recipe = recipe
        self.used = {}
        self._contents = {}
        there = next(path for path in (self.directory, *self.directory.absolute().parents) if path.exists())
        if not there.is_dir():
            raise NotADirectoryError(f"Expected a directory. Received: {there}, a file")

    def score(self, init, task: Downstream, options: Mapping) -> dict:
        """The content of a fine-tuning's file; it is made if it is not there.

        Returns:
            dict: ``percent``, the column's figure (`WORST` if the training diverged, with ``diverged``, the message),
            ``scores`` and ``constant_answer`` with all metrics of dev, ``options``, ``steps``, ``minutes``, ``file``.
        """
        path = self.path(init, task, options)
        if not path.exists():
            record = self._make(str(init), task, dict(sorted(options.items())))
            self.directory.mkdir(parents=True, exist_ok=True)
            write_json(path, record)
        found = read_json(path)
        self.used[path.name] = found
        return found | {"file": path.name, "percent": WORST if found["percent"] is None else found["percent"]}

    def constant_answer(self, task: Downstream) -> float | None:
        """The column's figure of the most frequent answer, of the last fine-tuning in `used`; None without one."""
        scores = [one["constant_answer"] for one in self.used.values() if one["task"] == task.name and "scores" in one]
        return task.percent(scores[-1]) if scores else None

    def path(self, init, task: Downstream, options: Mapping) -> pathlib.Path:
        """The file of a fine-tuning, whether it is there or not."""
        options = dict(sorted(options.items()))
        random_weights = options.get("random_weights", False)
        identity = {"init": self._content(init, random_weights), "task": task.settings(), "options": options}
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()
        what = "random" if random_weights else model_name(init)
        name = f"{task.name}-{what}-seed-{options.get('seed', 0)}-{digest[:12]}"
        return self.directory / (re.sub(r"[^\w.@-]+", "-", name) + ".json")

    def _make(self, init, task, options):
        gc.collect()  # models are in reference cycles; free the last one before the next is built
        record = {"init": model_name(init), "task": task.name, "metric": task.metric, "options": options}
        record |= {"recorded": datetime.datetime.now(datetime.UTC).isoformat(), "versions": versions()}
        try:
            metrics = _finetuned(init, task, **options).metrics
        except FloatingPointError as error:
            _LOGGER.warning("%s, %s: %s", task.name, options, error)
            return record | {"percent": None, "diverged": str(error)}
        scores = _numbers(metrics["dev"])
        constant = _numbers(metrics["constant_answer"])
        _LOGGER.info("%s, %s: %s %.4f", task.name, options, task.metric, scores[task.metric])
        record |= {"percent": task.percent(scores), "scores": scores, "constant_answer": constant}
        return record | {name: metrics[name] for name in ("train_examples", "dev_examples", "steps", "minutes")}

    def _content(self, init, random_weights):
        """What decides the model: the hashes of its files, for random weights without those of the weights."""
        if init not in self._contents:
            self._contents[init] = identify_inputs({"init": local_source(init) or init})["init"]
        files = {pathlib.PurePath(name).name: one["sha256"] for name, one in self._contents[init].items()}
        if random_weights and "config.json" in files:
            files = {name: digest for name, digest in files.items() if name in ("config.json", "vocab.txt")}
        return files


def _finetuned(init, task, bilstm=False, **options):
    if bilstm:
        init = bilstm_encoder(init, task.task.name, options["seed"], options.pop("dropout", None))
    return finetune(init, task.task, task.train, task.dev, **options)


def model_name(init) -> str:
    """What a table calls a model: the last part of its path, or the name of the run that holds it.

    Example::

        model_name("runs/tiny/model"), model_name("google-bert/bert-base-uncased")  # ("tiny", "bert-base-uncased")
    """
    path = pathlib.Path(init)
    if is_step_checkpoint(path):
        return f"{path.parent.parent.name}@{checkpoint_step(path)}"
    return path.parent.name if path.name == MODEL and path.parent.name else path.name


def _numbers(scores):
    """The numbers among scores, without those of each type of entities."""
    return {name: float(x) for name, x in scores.items() if isinstance(x, int | float)}
