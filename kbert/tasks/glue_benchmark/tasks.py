"""The GLUE tasks (Wang et al. 2018) as data: columns and labels of each file, official metrics, the paper's figures."""

import dataclasses
import logging
import os
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from kbert.aliases import PathLike
from kbert.checks import check_path
from kbert.tasks.labelled_text import LabelledText, from_table
from kbert.tasks.table import read_table
from kbert.tasks.text_task import Classification, Regression

_LOGGER = logging.getLogger("kbert")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueTask:
    """One task of GLUE, whose files are tab separated without quoting, in the layout of the official download."""

    name: str  # also the folder's name
    text: str = "sentence1"  # column of the (first) text
    text_pair: str | None = None
    label: str = "label"
    labels: tuple[str, ...] | None = ("0", "1")  # as files and server have them; None: regression
    score_range: tuple[float, float] = (-float("inf"), float("inf"))  # of a regression's labels
    header: tuple[str, ...] | None = None  # column names of labelled files that have no header line
    skip_short: bool = False  # labelled rows with missing cells are skipped and counted
    splits: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"train": "train.tsv", "dev": "dev.tsv"}
    )  # labelled files; "dev" selects the best run, any other "dev_…" is only reported
    metrics: tuple[str, ...] = ("accuracy",)  # official; the first decides which run is best
    paper: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)  # row -> metric -> percent

    @property
    def pair(self) -> bool:
        """Whether each example is a pair of texts."""
        return self.text_pair is not None

    @property
    def regression(self) -> bool:
        """Whether labels are numbers."""
        return self.labels is None

    @property
    def dev_splits(self) -> tuple[str, ...]:
        """The labelled splits to evaluate on: "dev", and "dev_mm" for MNLI."""
        return tuple(split for split in self.splits if split != "train")

    @property
    def columns(self) -> tuple[str, ...]:
        """The metrics of all dev splits by their names in `metrics.json`. Metrics of "dev_mm" end in "_mm"."""
        return tuple(metric + split.removeprefix("dev") for split in self.dev_splits for metric in self.metrics)

    def path(self, directory: PathLike, split: str) -> pathlib.Path:
        """The split's file in the GLUE directory, or in the task's own."""
        if split not in self.splits:
            raise ValueError(f"{self.name} has the labelled splits {list(self.splits)}. Received: {split!r}")
        file = self.splits[split]
        return _find(directory, (f"{self.name}/{file}", file))

    def read(self, directory: PathLike, split: str) -> LabelledText:
        """The labelled texts of a split. `skipped` counts the rows that were skipped."""
        return self.read_file(self.path(directory, split))

    def read_file(self, path: PathLike) -> LabelledText:
        """The labelled texts of one file, anywhere."""
        columns = [c for c in (self.text, self.text_pair, self.label) if c is not None]
        short_rows = "skip" if self.skip_short else "error"
        table = read_table(path, columns, format="tsv", header=self.header, short_rows=short_rows)
        return from_table(
            table,
            text=self.text,
            text_pair=self.text_pair,
            label=self.label,
            labels=self.labels,
            score_range=self.score_range,
        )


def _find(directory, files):
    """The first of the files that exists."""
    directory = pathlib.Path(directory)
    for file in files:
        if (directory / file).is_file():
            return directory / file
    others = " or ".join(files[1:])
    raise FileNotFoundError(
        f"Expected the GLUE directory, with {files[0]} in it{f' (or {others})' if others else ''}. "
        f"Received: {str(directory)!r}"
    )


def _paper(metric, base, large, base_dev=None, three_layers=None, dev_metric=None):
    """A task's rows: "test" is Table 1, "dev" Table 5, the smaller model Table 6 (dev, mean of 5 restarts)."""
    rows = {"BERT-base, test": {metric: base}, "BERT-large, test": {metric: large}}
    if base_dev is not None:
        rows["BERT-base, dev"] = {dev_metric or metric: base_dev}
    if three_layers is not None:
        rows["3 layers of 768, dev"] = {dev_metric or metric: three_layers}
    return rows


# QNLI: the paper's figures are of version 1 of the data, today's download is version 2.
GLUE_TASKS = {
    task.name: task
    for task in (
        GlueTask(
            name="CoLA",
            text="sentence",
            header=("source", "label", "original", "sentence"),  # of train and dev; the test file has its own
            metrics=("matthews",),
            paper=_paper("matthews", 52.1, 60.5),
        ),
        GlueTask(name="SST-2", text="sentence", paper=_paper("accuracy", 93.5, 94.9, 92.7, 88.4)),
        GlueTask(
            name="MRPC",
            text="#1 String",
            text_pair="#2 String",
            label="Quality",
            metrics=("f1", "accuracy"),
            paper=_paper("f1", 88.9, 89.3, 86.7, 79.8, dev_metric="accuracy"),
        ),
        GlueTask(
            name="STS-B",
            text_pair="sentence2",
            label="score",
            labels=None,
            score_range=(0.0, 5.0),
            metrics=("spearman", "pearson"),
            paper=_paper("spearman", 85.8, 86.5),
        ),
        GlueTask(
            name="QQP",
            text="question1",
            text_pair="question2",
            label="is_duplicate",
            skip_short=True,  # a few rows of the official file are broken; the baseline's reader skips them, too
            metrics=("f1", "accuracy"),
            paper=_paper("f1", 71.2, 72.1),
        ),
        GlueTask(
            name="MNLI",
            text_pair="sentence2",
            label="gold_label",
            labels=("contradiction", "entailment", "neutral"),
            splits={"train": "train.tsv", "dev": "dev_matched.tsv", "dev_mm": "dev_mismatched.tsv"},
            paper={
                "BERT-base, test": {"accuracy": 84.6, "accuracy_mm": 83.4},
                "BERT-large, test": {"accuracy": 86.7, "accuracy_mm": 85.9},
                "BERT-base, dev": {"accuracy": 84.4},
                "3 layers of 768, dev": {"accuracy": 77.9},
            },
        ),
        GlueTask(
            name="QNLI",
            text="question",
            text_pair="sentence",
            labels=("entailment", "not_entailment"),
            paper=_paper("accuracy", 90.5, 92.7, 88.4),
        ),
        GlueTask(
            name="RTE",
            text_pair="sentence2",
            labels=("entailment", "not_entailment"),
            paper=_paper("accuracy", 66.4, 70.1),
        ),
        GlueTask(name="WNLI", text_pair="sentence2", paper={"the majority class, test": {"accuracy": 65.1}}),
    )
}
_NAMES = {name.lower(): name for name in GLUE_TASKS}


def glue_name(name: str) -> str:
    """A task's name as GLUE writes it, from a name in any case. Anything else is returned as it is."""
    return _NAMES.get(name.lower(), name) if isinstance(name, str) else name


AVERAGED = tuple(name for name in GLUE_TASKS if name != "WNLI")  # in the paper's Table 1


def present_tasks(directory: PathLike, names: Sequence[str] = ()) -> list[GlueTask]:
    """The tasks to train, by names in any case, or by the folders that exist."""
    directory = pathlib.Path(directory)
    names = [glue_name(name) for name in names]
    if unknown := [name for name in names if name not in GLUE_TASKS]:
        raise ValueError(f"`tasks`: expected names of {list(GLUE_TASKS)}. Received: {unknown[0]!r}")
    tasks = [GLUE_TASKS[name] for name in names]
    if not names:
        tasks = [task for task in GLUE_TASKS.values() if (directory / task.name).is_dir()]
        if not tasks:
            raise ValueError(f"{directory}: expected folders of GLUE tasks. Received: none of {list(GLUE_TASKS)}")
        if absent := [name for name, task in GLUE_TASKS.items() if task not in tasks]:
            _LOGGER.info("%s has no folder for %s: skipped.", directory, ", ".join(absent))
    for task in tasks:
        for split in task.splits:
            task.path(directory, split)
    return tasks


def best_setting(grid: Mapping) -> Mapping:
    """Mean and deviation of the dev scores at the settings of the best run of `finetune_grid`."""
    names = ("learning_rate", "epochs", "batch_size")
    return next(each for each in grid["settings"] if all(each[name] == grid["best"][name] for name in names))


def average(grids: Mapping[str, Mapping]) -> float | None:
    """The paper's average in percent of the results of `finetune_grid` by task; None if one is missing."""
    if any(name not in grids for name in AVERAGED):
        return None
    columns = [(name, GLUE_TASKS[name].metrics[0]) for name in AVERAGED] + [("MNLI", "accuracy_mm")]
    return 100 * statistics.mean(best_setting(grids[name])["mean"][column] for name, column in columns)


def describe_all(result: Mapping) -> str:
    """The tables of `kbert.finetuning.finetune_glue`, and the average beside the paper's, for printing."""
    parts = [describe_scores(GLUE_TASKS[name], grid) for name, grid in result["tasks"].items()]
    if result.get("average") is not None:
        average = f"average without WNLI, dev: {result['average']:.1f}"
        parts.append(f"{average}  (paper, test: BERT-base 79.6, BERT-large 82.1)")
    return "\n\n".join(parts)


def describe_scores(task: GlueTask, grid: Mapping) -> str:
    """The rows of the paper, of a constant answer and of the runs of a grid, in percent, for printing."""
    lines = [f"{task.name:<42}" + "".join(f"{name:>14}" for name in task.columns)]

    def row(name, values, deviations=None):
        cells = [f"{values[m]:.1f}" if m in values else "-" for m in task.columns]
        if deviations:
            cells = [f"{cell} ± {deviations[m]:.1f}" for cell, m in zip(cells, task.columns, strict=True)]
        lines.append(f"{name:<42}" + "".join(f"{cell:>14}" for cell in cells))

    def percent(values):
        return {name: 100 * values[name] for name in task.columns if name in values}

    for name, values in task.paper.items():
        row(f"paper: {name}", values)
    row("a constant answer, dev", percent(grid["constant_answer"]))
    if len(grid["settings"]) > 1:
        for each in grid["settings"]:
            setting = "rate {learning_rate:g}, epochs {epochs:g}, batch {batch_size}".format(**each)
            row(setting, percent(each["mean"]))
    if len(grid["runs"]) > 1:
        row("the best run, dev", percent(grid["best"]["dev"]))
    best = best_setting(grid)
    seeds = len({run["seed"] for run in grid["runs"]})
    examples = f"{grid['train_examples']:,} examples" + (f", {seeds} seeds" if seeds > 1 else "")
    row(f"this run, dev ({examples})", percent(best["mean"]), percent(best["deviation"]) if seeds > 1 else None)
    return "\n".join(lines)


class _Glue:
    """A task with the columns, labels and files of the official download."""

    def __repr__(self):
        return f'kbert.tasks.glue("{self.glue}")'

    def read(self, data, split="train"):
        """The examples of rows, of a file, or of a directory's split, "train", "dev" or MNLI's "dev_mm"."""
        if not isinstance(data, str | os.PathLike):
            return super().read(data)
        definition = GLUE_TASKS[self.glue]
        return definition.read_file(data) if os.path.isfile(data) else definition.read(data, split)

    def read_dev(self, path):
        """The dev split. MNLI's is the matched one."""
        return self.read(path, "dev")

    def dev_sets(self, path):
        """The dev set of a directory, and for MNLI the mismatched one, whose suffix is "_mm"."""
        splits = GLUE_TASKS[self.glue].dev_splits
        splits = splits[:1] if check_path(path, "read: `path`").is_file() else splits
        return {split.removeprefix("dev"): self.read(path, split) for split in splits}

    def check_pipeline(self, pipeline):
        """Raises ValueError unless a pipeline's model fits the task: type, labels, inputs, whole texts."""
        definition = GLUE_TASKS[self.glue]
        task, settings = pipeline.model.task, pipeline.settings()
        if task != self.name or (definition.labels and sorted(definition.labels) != sorted(settings.get("labels"))):
            raise ValueError(
                f"expected a model for {self.glue}, {self.name} with labels {definition.labels}. "
                f"Received: {task} with labels {settings.get('labels')}"
            )
        if pipeline.preprocessor.makes_windows:
            raise ValueError("expected a model of whole texts. Received: one trained with --window-pooling")
        if settings.get("pair", False) != definition.pair:
            kinds = {True: "pairs", False: "single texts"}
            raise ValueError(
                f"expected a model for {kinds[definition.pair]}, as {self.glue} has. "
                f"Received: one for {kinds[not definition.pair]}"
            )

    def settings(self, train):
        return super().settings(train) | {"window_pooling": None}  # whatever the model was trained with before


@dataclasses.dataclass(frozen=True, repr=False)
class GlueClassification(_Glue, Classification):
    """A task of GLUE with classes."""

    glue: str = ""


@dataclasses.dataclass(frozen=True, repr=False)
class GlueRegression(_Glue, Regression):
    """STS-B."""

    glue: str = ""


def glue(name: str) -> Classification | Regression:
    """A task of GLUE, with its official columns, labels, files and metrics.

    Args:
        name: one of ``CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI``, in any case.

    Returns:
        A task object. Its ``read(path, split)`` takes the GLUE directory and "train", "dev" or, for MNLI, "dev_mm".
            Where examples are to evaluate on, the directory alone means its dev split.

    Raises:
        ValueError: no such task.

    Example::

        task = kbert.tasks.glue("MRPC")
        train, dev = task.read("glue", "train"), task.read("glue", "dev")
        run = kbert.finetune("saved_models/kbert-tiny", task, train, dev, "runs/mrpc", epochs=3, learning_rate=1e-3)
    """
    name = glue_name(name)
    if name not in GLUE_TASKS:
        raise ValueError(f"glue: expected one of {list(GLUE_TASKS)}. Received: {name!r}")
    definition = GLUE_TASKS[name]
    return (GlueRegression if definition.regression else GlueClassification)(
        text=definition.text,
        text_pair=definition.text_pair,
        label=definition.label,
        metrics=definition.metrics,
        glue=name,
    )
