"""GLUE as in section 4.1 of the paper: several learning rates and restarts per task, the best on dev is kept."""

import functools
import gc
import json
import logging
import pathlib
import shutil
import statistics
from collections.abc import Sequence

from kbert.checks import check_bool, differing
from kbert.files import read_json, write_directory
from kbert.finetuning.finetuning import Finetuning
from kbert.locks import lock_directory, unlock_directory
from kbert.tasks.glue_benchmark.submission import ZIP, submit
from kbert.tasks.glue_benchmark.task import glue
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, GlueTask
from kbert.training.dry_run import format_estimate
from kbert.training.hardware import choose_hardware
from kbert.training.made_by import METRICS, MODEL, SETTINGS
from kbert.training.run_directory import open_run

_LOGGER = logging.getLogger("kbert")
SUBMISSION = "submission"  # the folder of the output in which the test files are answered
AVERAGED = tuple(name for name in GLUE_TASKS if name != "WNLI")  # in the paper's Table 1


def present_tasks(directory, name: str, tests: bool = False) -> list[GlueTask]:
    """The tasks to train; all of their files exist.

    Args:
        name: of a task, or "all": those whose folder exists.
        tests: whether the test files must exist and be readable, too.

    Raises:
        FileNotFoundError, ValueError: unknown task, or a file that is missing or damaged.
    """
    directory = pathlib.Path(directory)
    tasks = [GLUE_TASKS[n] for n in (GLUE_TASKS if name == "all" else [name])]
    if name == "all":
        tasks = [task for task in tasks if (directory / task.name).is_dir()]
        if not tasks:
            raise ValueError(f"{directory}: expected folders of GLUE tasks. Received: none of {list(GLUE_TASKS)}")
        if absent := [n for n in GLUE_TASKS if GLUE_TASKS[n] not in tasks]:
            _LOGGER.info("%s has no folder for %s: skipped.", directory, ", ".join(absent))
    for task in tasks:
        for split in task.splits:
            task.path(directory, split)
        for file in task.tests if tests else ():
            task.read_test(directory, file)
    return tasks


class GlueGrid:
    """The fine-tunings of one task or of all: each learning rate, with each seed.

    All files are read and the first model is built before anything is written (`open`) or trained (`run`). Each
    fine-tuning is a run in its own folder that resumes; finished ones are not repeated.

    Args:
        source: what `kbert.load_pretrained` takes.
        name: of a task, or "all".
        rates, seeds: the learning rates and the seeds to try.
        train_examples: int, train on that many, the same ones for every seed; None: on all.
        tests: whether the test files will be answered afterwards.
        settings: dict of the settings that define the grid.
        log_dir, overwrite, recipe: see `kbert.finetuning.finetuning.Finetuning`.
        **options: the other options of `kbert.finetune`.

    Attributes:
        is_trained: bool, whether the runs in `output` are finished without a submission, so that only the test files
            remain to be answered.

    Raises:
        FileNotFoundError, ValueError: as `present_tasks`, `GlueTask.read` and `kbert.finetune`.
    """

    def __init__(
        self,
        source,
        directory,
        output,
        name: str,
        *,
        rates: Sequence[float] = (5e-5,),
        seeds: Sequence[int] = (0,),
        train_examples: int | None = None,
        tests: bool = False,
        settings=None,
        log_dir=None,
        overwrite: bool = False,
        recipe: str = "kbert.finetuning.glue_grid",
        **options,
    ):
        check_bool(tests, "`tests`")
        check_bool(overwrite, "`overwrite`")
        self.source, self.directory, self.output = source, pathlib.Path(directory), pathlib.Path(output)
        self.name, self.tasks = name, present_tasks(directory, name, tests)
        self.each = [(rate, seed) for rate in rates for seed in seeds]
        self.settings = json.loads(json.dumps(settings or {})) | {"rates": list(rates), "seeds": list(seeds)}
        self.log_dir, self.overwrite, self.recipe, self.options = log_dir, overwrite, recipe, options
        self.train_examples = train_examples
        there = not overwrite and (self.output / METRICS).exists()
        answered = (self.output / SUBMISSION / ZIP).exists()
        self.is_trained = there and tests and not answered and not differing(self._stored_settings(), self.settings)
        done = () if overwrite else [t for t in self.tasks if (self._path(t) / METRICS).exists() and name == "all"]
        self._unfinished = [task for task in self.tasks if task not in done]
        self._data = {task.name: self._read(task) for task in self._unfinished}
        self._first, self._run = None, None
        if not self.is_trained and self._unfinished:
            path = self._path(self._unfinished[0]) / self._folder(*self.each[0])
            self._first = (path, self._finetuning(self._unfinished[0], path, *self.each[0]))
        self.hardware = self._first[1].hardware if self._first else _hardware(options)

    def open(self):
        """Opens the output by the rule of `kbert.training.open_run`, and raises as it does."""
        if self.is_trained:
            return
        if self.name == "all" or len(self.each) > 1:
            self._run = self._open(self.output, self.settings, self.tasks, self.overwrite)
        else:
            self._first[1].open()

    @property
    def models(self) -> dict[str, list[pathlib.Path]]:
        """{task: [directory of its model]}, of the finished runs."""
        return {task.name: [self._path(task) / MODEL] for task in self.tasks}

    def describe_plan(self) -> str:
        """How many fine-tunings are left to do, and the estimate of the first, for printing; trains nothing."""
        left = [self._path(task) / self._folder(*each) for task in self._unfinished for each in self.each]
        left = [path for path in left if self.overwrite or not (path / METRICS).exists()]
        if self._first is None or not left:
            return f"Nothing is left to train in {self.output}."
        runs = "1 run" if len(left) == 1 else f"{len(left)} runs. The first one"
        return f"{runs}:\n{format_estimate(self._first[1].estimate())}"

    def run(self) -> dict:
        """Trains what is not trained yet.

        Returns:
            what metrics.json holds: of one task its scores; of all ``{"tasks": {name: scores}, "average": the paper's,
            "minutes"}``.
        """
        if self.is_trained:
            return read_json(self.output / METRICS)
        if self.name != "all":
            return self._run_task(self.tasks[0], self._run)
        scores = {}
        for task in self.tasks:
            path = self._path(task)
            if (path / METRICS).exists():
                scores[task.name] = read_json(path / METRICS)
                continue
            run = None
            if len(self.each) > 1:
                run = self._open(path, self.settings | {"task": task.name}, [task])
            scores[task.name] = self._run_task(task, run)
        minutes = sum(one["minutes"] for one in scores.values())
        result = {"tasks": scores, "average": average(scores), "minutes": minutes}
        self._run.finish(result)
        return result

    def submit(self, batch_size: int = 32) -> str:
        """Answers the test files with what was kept, in ``submission/`` of the output; what was written, for printing.

        The first of several workers holds the directory's lock meanwhile.

        Raises:
            BlockingIOError: another process holds it.
        """
        if self.hardware.is_chief:
            lock_directory(self.output)
        try:
            with self.hardware.scope():
                return submit(self.models, (), self.directory, self.output / SUBMISSION, batch_size)
        finally:
            unlock_directory(self.output)

    def _run_task(self, task, run):
        """Every learning rate and restart of one task; the model of the best one is the model of the run."""
        if len(self.each) == 1:
            return self._take(task, self._path(task), *self.each[0]).run().metrics
        scores = {}
        for rate, seed in self.each:
            path = run.path / self._folder(rate, seed)
            if (path / METRICS).exists():
                scores[rate, seed] = read_json(path / METRICS)
                continue
            one = scores[rate, seed] = self._take(task, path, rate, seed).run().metrics
            _LOGGER.info("%s: %s", path.name, ", ".join(f"{name} {one['dev'][name]:.4f}" for name in task.columns))
        best = max(scores, key=lambda each: scores[each]["dev"][task.columns[0]])
        metrics = summarise(scores, best, task.columns)
        model = run.path / self._folder(*best) / MODEL
        # The copy is the run's model, manifest and all: its own folder tells how it was made.
        copy = functools.partial(shutil.copytree, model, dirs_exist_ok=True)
        run.finish(metrics, lambda path, made_by: write_directory(path, copy))
        return metrics

    def _take(self, task, path, rate, seed):
        """A fine-tuning that only the caller references: the first one, once, or a new one."""
        first, self._first = self._first, None
        if first is not None and first[0] == path:
            return first[1]
        del first
        gc.collect()  # models are in reference cycles; free the last one before the next is built
        return self._finetuning(task, path, rate, seed)

    def _finetuning(self, task, path, rate, seed):
        train, dev = self._data[task.name]
        more_dev = {suffix: examples for suffix, examples in dev.items() if suffix}
        log_dir = self.log_dir and pathlib.Path(self.log_dir) / path.relative_to(self.output)
        return Finetuning(
            self.source,
            glue(task.name),
            train,
            dev[""],
            path,
            more_dev=more_dev,
            log_dir=log_dir,
            overwrite=self.overwrite and path == self.output,
            recipe=self.recipe,
            more_settings={"grid": self.settings},
            learning_rate=rate,
            seed=seed,
            **self.options,
        )

    def _read(self, task):
        """Training texts, and the texts to evaluate on: {"": dev, "_mm": the other dev set of MNLI}"""
        train = task.read(self.directory, "train")
        dev = {split.removeprefix("dev"): task.read(self.directory, split) for split in task.dev_splits}
        for name, examples in {"train": train, **{f"dev{suffix}": one for suffix, one in dev.items()}}.items():
            if examples.skipped:
                _LOGGER.info("%s, %s: %d rows without all their cells are skipped", task.name, name, examples.skipped)
        if self.train_examples and (self.name != "all" or self.train_examples < len(train)):
            _, train = train.split(self.train_examples)
        return train, dev

    def _path(self, task):
        return self.output / task.name if self.name == "all" else self.output

    def _folder(self, rate, seed):
        if len(self.each) == 1:
            return ""
        rates = {rate for rate, _ in self.each}
        return f"seed-{seed}" if len(rates) == 1 else f"rate-{rate:g}-seed-{seed}"

    def _open(self, path, settings, tasks, overwrite=False):
        files = [task.path(self.directory, split) for task in tasks for split in task.splits]
        inputs = {"data": files, "init": self.source}
        return open_run(path, settings, overwrite, self.hardware, inputs=inputs, recipe=self.recipe)

    def _stored_settings(self):
        path = self.output / SETTINGS
        stored = read_json(path) if path.exists() else {}
        return stored.get("grid", stored)


def _hardware(options):
    names = ("strategy", "precision", "xla", "logical_cpus")
    return choose_hardware(**{name: options[name] for name in names if name in options})


def summarise(scores, best, columns) -> dict:
    """The metrics of several runs: of the best, of its learning rate (mean, deviation), and of every rate.

    Args:
        scores: {(rate, seed): metrics of that run}.
        best: (rate, seed) of the best.
    """
    rate, seed = best
    each = {r: [one["dev"] for (of, _), one in scores.items() if of == r] for r, _ in scores}
    grid = {r: {name: [one[name] for one in dev] for name in ("loss", *columns)} for r, dev in each.items()}
    means = {r: {name: statistics.mean(values) for name, values in dev.items()} for r, dev in grid.items()}
    deviations = {
        r: {name: statistics.stdev(values) if len(values) > 1 else None for name, values in dev.items()}
        for r, dev in grid.items()
    }
    metrics = scores[best]
    return {
        **{key: metrics[key] for key in ("constant_answer", "train_examples", "steps")},
        "dev": {"examples": metrics["dev"]["examples"]} | means[rate],
        "deviation": deviations[rate],
        "restarts": {str(s): one["dev"] for (r, s), one in scores.items() if r == rate},
        "grid": {f"{r:g}": {"mean": means[r], "deviation": deviations[r]} for r in means},
        "best": metrics["dev"],
        "best_seed": seed,
        "learning_rate": rate,
        "minutes": sum(one["minutes"] for one in scores.values()),
    }


def average(scores) -> float | None:
    """The paper's average in percent: each first metric but WNLI's, MNLI on both dev sets; None if one is missing."""
    if any(name not in scores for name in AVERAGED):
        return None
    columns = [(name, GLUE_TASKS[name].metrics[0]) for name in AVERAGED] + [("MNLI", "accuracy_mm")]
    return 100 * statistics.mean(scores[name]["dev"][column] for name, column in columns)
