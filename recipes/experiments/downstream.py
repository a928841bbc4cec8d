"""The tasks on which rows are compared, as a command line names them, with limits of how many examples are used."""

import copy
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from kbert.tasks.examples import Examples
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, glue, glue_name
from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.span.task import SpanExtraction
from kbert.tasks.tagging.task import Tagging
from kbert.tasks.task import Task

NER, SQUAD = "NER", "SQuAD"
_LENGTH = {"sequence_length": 128}
_METRICS = {"CoLA": "matthews", "STS-B": "spearman", NER: "f1", SQUAD: "f1"}  # of the paper's tables 5 to 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Downstream:
    """A task with its examples, and the metric that its column shows.

    Attributes:
        name: of the column.
        task: task object.
        train, dev: its examples.
        metric: name of an official metric; those of tables 5 to 8: the accuracy of MRPC, F1 of SQuAD and entities.
        options: options of `kbert.finetune` that this task has where a study gives no others.
    """

    name: str
    task: Task
    train: Examples
    dev: Examples
    metric: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def percent(self, scores: Mapping[str, Any]) -> float:
        """The column's figure: of `Evaluation.scores`, in percent."""
        return float(scores[self.metric]) * (1.0 if self.task.name == "span" else 100.0)

    def settings(self) -> dict:
        """What identifies the examples, as JSON."""
        return {
            "task": self.task.to_dict(),
            "train": self.train.fingerprint(),
            "dev": self.dev.fingerprint(),
            "options": dict(self.options),
        }


def chosen_by_column(task: Downstream) -> Downstream:
    """The column with a task whose first metric, which chooses the best epoch, is the one that the column shows."""
    metrics = task.task.metrics
    if metrics[0] == task.metric:
        return task
    own = copy.copy(task.task)  # `dataclasses.replace` would lose which task of GLUE it is
    object.__setattr__(own, "metrics", (task.metric, *(metric for metric in metrics if metric != task.metric)))
    return dataclasses.replace(task, task=own)


def count_examples(tasks: Sequence[Downstream]) -> dict[str, dict[str, int]]:
    """{name of a task: the numbers of examples that it is trained and evaluated on}."""
    return {task.name: {"train": len(task.train), "dev": len(task.dev)} for task in tasks}


def downstream_tasks(
    *,
    glue_directory=None,
    glue_tasks: Sequence[str] = (),
    ner=None,
    squad=None,
    train_examples: int | Mapping[str, int | None] | None = None,
    dev_examples: int | Mapping[str, int | None] | None = None,
) -> list[Downstream]:
    """The tasks of a study, read from their files.

    Args:
        glue_directory: the GLUE files.
        glue_tasks: names of tasks of GLUE.
        ner: (train, dev), paths of tagged words.
        squad: (train, dev), paths of files of SQuAD's format.
        train_examples: train on at most that many examples of each task, always the same ones; or a limit for each
            name.
        dev_examples: evaluate on at most that many.

    Example::

        downstream_tasks(glue_directory="glue", glue_tasks=["MRPC", "SST-2"], ner=("eng.train", "eng.testa"))
    """
    found = []
    if glue_tasks and glue_directory is None:
        raise ValueError(f"downstream_tasks: {list(glue_tasks)} need the GLUE files. Received: no `glue_directory`")
    for name in glue_tasks:
        task = glue(name)
        found.append((name, task, task.read(glue_directory, "train"), task.read(glue_directory, "dev"), _LENGTH))
    for name, task, files, options in (
        (NER, Tagging(), ner, _LENGTH),
        (SQUAD, SpanExtraction(), squad, {"sequence_length": 384}),
    ):
        if files is not None:
            train, dev = (task.read(pathlib.Path(file)) for file in files)
            found.append((name, task, train, dev, options))
    if not found:
        raise ValueError("downstream_tasks: expected a task of GLUE, `ner` or `squad`. Received: none")
    return [
        Downstream(
            name=name,
            task=task,
            train=_some(train, _limit(train_examples, name)),
            dev=_some(dev, _limit(dev_examples, name)),
            metric=_METRICS.get(name, "accuracy"),
            options=options,
        )
        for name, task, train, dev, options in found
    ]


def _limit(limits, name):
    return limits.get(name) if isinstance(limits, Mapping) else limits


def _some(examples, number):
    """At most so many examples; of tagged words and questions the first ones, whose documents stay whole."""
    if number is None or number >= len(examples):
        return examples
    return examples.split(number)[1] if isinstance(examples, LabelledText) else examples.take(range(number))


def named_tasks(words: Sequence[str], *, glue=None, ner=None, squad=None) -> list[Downstream]:
    """The tasks of words such as ``SST-2:1000`` or ``SQuAD:10000:2000``, in their order.

    Args:
        words: ``NAME[:TRAIN[:DEV]]``: a task of GLUE, ``NER`` or ``SQuAD``, on at most so many examples.
        glue: directory of the GLUE files.
        ner: directory with ``eng.train`` and ``eng.testa``.
        squad: directory with ``train-v1.1.json`` and ``dev-v1.1.json``.
    """
    parsed = [_parse(word) for word in words]
    names = [name for name, *_ in parsed]
    if len(set(names)) < len(names):
        raise ValueError(f"expected each task once. Received: {' '.join(words)}")
    directories = {NER: ner, SQUAD: squad}
    for name in names:
        if directories.get(name, glue) is None:
            flag = f"--{name.lower()}" if name in directories else "--glue"
            raise ValueError(f"{name}: expected {flag}, the directory of its files. Received: none")
    found = downstream_tasks(
        glue_directory=glue,
        glue_tasks=[name for name in names if name not in directories],
        ner=_files(ner, "eng.train", "eng.testa") if NER in names else None,
        squad=_files(squad, "train-v1.1.json", "dev-v1.1.json") if SQUAD in names else None,
        train_examples={name: train for name, train, _ in parsed},
        dev_examples={name: dev for name, _, dev in parsed},
    )
    return sorted(found, key=lambda task: names.index(task.name))


def _files(directory, *names):
    return [pathlib.Path(directory) / name for name in names]


def _parse(word):
    """(name, limit of training examples or None, of dev examples or None)."""
    name, *limits = word.split(":")
    name = glue_name(name)
    known = [*GLUE_TASKS, NER, SQUAD]
    if (
        name not in known
        or len(limits) > 2
        or any(limit and not (limit.isdecimal() and int(limit)) for limit in limits)
    ):
        raise ValueError(f"expected NAME, NAME:TRAIN or NAME:TRAIN:DEV with a name of {known}. Received: {word!r}")
    train, dev = ([int(limit) if limit else None for limit in limits] + [None, None])[:2]
    return name, train, dev
