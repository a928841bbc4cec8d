"""Tasks as a command line names them: a name, with limits of how many examples are used."""

import pathlib
from collections.abc import Sequence

from experiments.downstream import NER, SQUAD, Downstream, downstream_tasks
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, glue_name


def named_tasks(words: Sequence[str], *, glue=None, ner=None, squad=None) -> list[Downstream]:
    """The tasks of words such as ``SST-2:1000`` or ``SQuAD:10000:2000``, in their order.

    Args:
        words: ``NAME[:TRAIN[:DEV]]``: a task of GLUE, ``NER`` or ``SQuAD``, on at most so many examples.
        glue: directory of the GLUE files.
        ner: directory with ``eng.train`` and ``eng.testa``.
        squad: directory with ``train-v1.1.json`` and ``dev-v1.1.json``.

    Raises:
        ValueError: another word, a task twice, or one whose directory is not given.
        FileNotFoundError: missing files.
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
