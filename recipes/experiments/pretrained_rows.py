"""The pre-trainings behind the rows of tables: each made once, whichever rows need it."""

import functools
import gc
import hashlib
import json
import logging
import os
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from experiments.paper_tables import Row, kept_every, milestone, needs_milestones
from experiments.report import accuracy_without_context
from kbert.corpus.corpus_files import find_files
from kbert.corpus.records import Records
from kbert.corpus.records_manifest import is_records
from kbert.files import read_json
from kbert.pretraining.run.corpus_data import choose_packing
from kbert.pretraining.run.pretrain import pretrain
from kbert.pretraining.run.pretraining_settings import SEQUENCE_LENGTH, PretrainingSettings, complete_settings
from kbert.pretraining.run.starting_model import source_tokenizer
from kbert.pretraining.sources import HELD_OUT
from kbert.training.intervals import log_interval
from kbert.training.logs import History, training_minutes
from kbert.training.made_by import INPUTS, METRICS, identify_inputs, identify_model, identify_vocabulary
from kbert.weights.build_pipeline import own_tokenizer
from kbert.weights.load import load_pretrained
from kbert.weights.source import local_source

_PATHS = ("vocabulary", "init", "names")  # arguments of `kbert.pretrain` that may be paths


def absolute_source(source):
    """A path or pattern of `kbert.pretrain`'s source, or a list of them, as it reads from every working directory."""
    return list(map(os.path.abspath, source)) if isinstance(source, list | tuple) else os.path.abspath(source)


def absolute_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `kbert.pretrain`, of which those that are files or directories have absolute paths."""
    given = {name: arguments.get(name) for name in _PATHS}
    found = {name: path for name, path in given.items() if isinstance(path, str | os.PathLike) and os.path.exists(path)}
    return dict(arguments) | {name: pathlib.Path(os.path.abspath(path)) for name, path in found.items()}


def decide_packing(source, pretraining) -> bool:
    """Whether the pre-trainings of a study pack their rows: what `kbert.pretrain` decides for these arguments.

    Args:
        source: of `kbert.pretrain`.
        pretraining: its other arguments, without `packed`.
    """
    settings = PretrainingSettings(pretrain.arguments(source, **pretraining), source)
    tokenizer = source_tokenizer(settings)
    if tokenizer is None and isinstance(settings.init, str | os.PathLike):
        tokenizer = load_pretrained(settings.init, "encoder").pretrained.tokenizer
    elif tokenizer is None:
        tokenizer = own_tokenizer(settings.init)
    return choose_packing(settings, tokenizer).packed


def identify_rows(source, pretraining) -> dict:
    """The files that all pre-trainings of a study read, by their content; vocabularies and models in memory, too."""
    records = isinstance(source, str | os.PathLike) and is_records(source)
    files = {"records": source} if records else {"corpus": find_files(source)}
    found = {}
    for name, identify in (("vocabulary", identify_vocabulary), ("init", identify_model)):
        value = pretraining.get(name)
        if isinstance(value, str | os.PathLike):
            files[name] = value if name == "vocabulary" else local_source(value) or value
        elif value is not None:
            found[name] = identify(value)
    return _hashes(files) | found


def identify_names(path) -> dict:
    """The content of a row's file of names, for `identify_rows`' dict; nothing for a row without one."""
    return {} if path is None else _hashes({"names": path})


def _hashes(files):
    return {name: sorted(one["sha256"] for one in each.values()) for name, each in identify_inputs(files).items()}


_LOGGER = logging.getLogger("kbert")
_SCORES = ("mlm_accuracy", "mlm_perplexity", "mlm_cross_entropy", "nsp_accuracy")
_RATES = {"mask_token_rate": 0.8, "keep_rate": 0.1, "random_token_rate": 0.1}  # of `kbert.pretrain`, with its defaults


class PretrainedRows:
    """The pre-trainings of a study, in one directory; the same call resumes after a kill.

    A pre-training is a folder named after its row and the hash of all that decides it: finished ones are read,
    unfinished ones resume, and other settings, files or contents of files have other folders.

    Args:
        source: what `kbert.pretrain` trains on: records, or text with `vocabulary` among `arguments`.
        directory: of all pre-trainings.
        arguments: of `kbert.pretrain` that all rows share: size, steps or hours, settings ...
    """

    def __init__(self, source, directory, arguments: Mapping[str, Any]):
        self.source, self.directory = absolute_source(source), pathlib.Path(directory)
        self.arguments = absolute_arguments(arguments)
        self.records: dict[str | pathlib.Path, dict] = {}

    @functools.cached_property
    def packed(self) -> bool:
        """Whether the rows of all pre-trainings are packed: decided once, for what they share."""
        given = self.arguments.get("packed")
        return decide_packing(self.source, self.arguments) if given is None else given

    @functools.cached_property
    def _content(self):
        return identify_rows(self.source, self.arguments)

    def settings(self) -> dict:
        """What all pre-trainings share; files by their names."""
        decided = complete_settings(self.arguments.get("settings"), self.arguments) | {"packed": self.packed}
        if not (self.arguments | decided).get("phases"):
            decided.setdefault("sequence_length", self.arguments.get("sequence_length") or SEQUENCE_LENGTH)
        shown = {name: _file_name(value) for name, value in (self.arguments | decided).items()}
        return {"source": [pathlib.Path(path).name for path in _as_list(self.source)], "pretraining": shown}

    def check(self, rows: Iterable[Row]) -> None:
        """Raises what would otherwise end `path` after hours: before anything is written."""
        rows = list(rows)
        for row in rows:
            if row.fraction < 1.0:
                self._step(row)
        if not self._reads_records:
            find_files(self.source)
        steps = self.arguments.get("steps")
        if steps is not None and any(needs_milestones(self._own(row)) for row in rows):
            kept_every(steps)

    def folder(self, row: Row) -> pathlib.Path:
        """Where the pre-training of a row is or will be."""
        return self.directory / run_folder(self.name(row), self.identity(row, fraction=1.0))

    def is_made(self, row: Row) -> bool:
        """Whether the pre-training of a row is finished."""
        return (self.folder(row) / METRICS).exists()

    def estimate(self, row: Row) -> dict:
        """What the pre-training of a row would take, as `kbert.pretrain(dry_run=True)` finds it."""
        return pretrain(self.source, dry_run=True, **_checkpoints(self._arguments(row), self._own(row))).metrics

    def most_epochs(self, tokens: int) -> float | None:
        """How many epochs so many tokens of rows are at most, with padding as text; None of text, which is not counted.

        As `kbert.pretrain`, it counts an epoch as the tokens of the training documents.
        """
        if not self._reads_records:
            return None
        return tokens / sum(shard["tokens"] for shard in Records(self.source).training)

    @property
    def _reads_records(self):
        return isinstance(self.source, str) and is_records(self.source)

    def path(self, row: Row) -> pathlib.Path:
        """The finished pre-training of a row, made if it is not there."""
        path = self.folder(row)
        if not (path / METRICS).exists():
            _LOGGER.info("pre-training for %s: %s", row.name, path.name)
            gc.collect()  # models are in reference cycles; free the last one before the next is built
            pretrain(self.source, output=path, **_checkpoints(self._arguments(row), self._own(row)))
        self.records[path] = read_json(path / INPUTS)
        return path

    def source_of(self, row: Row) -> str:
        """The model that a row fine-tunes, as `kbert.load_pretrained` takes it."""
        path = self.path(row)
        return str(path) if row.fraction == 1.0 else f"{path}@{self._step(row)}"

    def describe(self, row: Row) -> dict:
        """Steps, minutes, epochs and held-out scores of a row's pre-training; of a fraction of it from its history.

        With the accuracy that needs no context (`experiments.report.is_trained`), and whether it is a
        left-to-right model, whose scores cannot be compared with those of masked ones.
        """
        path = self.path(row)
        metrics = read_json(path / METRICS)
        step = metrics["steps"] if row.fraction == 1.0 else self._step(row)
        records = History(path / "history.jsonl", step, writes=False).records
        found = {"parameters": metrics["parameters"], "minutes": training_minutes(records), "steps": step}
        arguments = self._arguments(row)
        unigram = metrics["unigram"]["accuracy"]
        if arguments.get("left_to_right"):
            found |= {"left_to_right": True, "accuracy_without_context": unigram}
        else:
            rates = _RATES | {name: arguments[name] for name in _RATES if arguments.get(name) is not None}
            found["accuracy_without_context"] = accuracy_without_context(unigram, **rates)
        if metrics.get("epochs") is not None:
            found["epochs"] = metrics["epochs"] * step / metrics["steps"]
        if row.fraction == 1.0:
            return found | {name: metrics[name] for name in _SCORES if name in metrics}
        for record in records:
            found |= {name: record[f"val_{name}"] for name in _SCORES if f"val_{name}" in record}
        return found

    def name(self, row: Row) -> str:
        """What a row's pre-training does not share with the others, as part of a file's name."""
        own = {name: pathlib.Path(value) if name == "names" else value for name, value in self._own(row).items()}
        parts = [f"{name}-{_file_name(value)}" for name, value in sorted(own.items())]
        return re.sub(r"[^\w.-]+", "_", "-".join(parts).lower()) or "base"

    def identity(self, row: Row, fraction: float | None = None) -> dict:
        """What decides the model that a row starts from, or with a fraction of 1 its whole pre-training."""
        fraction = row.fraction if fraction is None else fraction
        arguments = {"held_out": HELD_OUT} | self._arguments(row)  # of records, it decides nothing
        plain = {name: _plain(self._content.get(name, ""), value) for name, value in arguments.items()}
        content = self._content | identify_names(arguments.get("names"))
        identity = {"source": _as_list(self.source), "pretraining": plain, "content": content}
        return identity if fraction == 1.0 else identity | {"fraction": fraction}

    def _step(self, row):
        if self.arguments.get("steps") is None:
            raise ValueError(f"Study: {row.name!r} is a fraction of a run of `steps`. Received: a run of hours")
        return milestone(self.arguments["steps"], row.fraction)

    def _own(self, row):
        return {name: value for name, value in row.pretraining.items() if self.arguments.get(name) != value}

    def _arguments(self, row):
        return absolute_arguments(self.arguments | {"packed": self.packed} | dict(row.pretraining))


def run_folder(name: str, identity: Mapping) -> str:
    """The folder of a run: its name, and a hash of all that decides it."""
    text = json.dumps(identity, sort_keys=True, default=str)
    return f"{name[:100]}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _checkpoints(arguments, own):
    """The arguments of a run with checkpoints that figure 5 can read, where it will."""
    if arguments.get("steps") is None or not needs_milestones(own):
        return arguments
    every = kept_every(arguments["steps"])
    most = arguments.get("checkpoint_every", 500)
    return arguments | {"checkpoint_every": log_interval(every, most), "keep_every": every}


def _as_list(source):
    return list(source) if isinstance(source, list | tuple) else [source]


def _file_name(value):
    """The last part of a path, for descriptions; other values as they are."""
    return value.name if isinstance(value, pathlib.Path) else value


def _plain(content, value):
    """An argument as JSON: paths as text, vocabularies and models in memory as their content."""
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    return content or value
