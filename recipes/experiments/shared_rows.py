"""What the rows of a study read, by its place and its content, and whether it is packed."""

import dataclasses
import inspect
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from kbert.corpus.corpus_files import find_files
from kbert.corpus.records_manifest import is_records
from kbert.tasks.identify import identify_model, identify_vocabulary
from kbert.tasks.pretraining.pretrain import pretrain
from kbert.tasks.pretraining.pretraining_settings import PretrainingSettings
from kbert.tasks.pretraining.row_layout import choose_packing
from kbert.tasks.pretraining.starting_model import source_tokenizer
from kbert.training.inputs import identify_inputs
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
    fields = {field.name for field in dataclasses.fields(PretrainingSettings)}
    parameters = inspect.signature(pretrain).parameters.values()
    arguments = {one.name: one.default for one in parameters if one.default is not one.empty} | dict(pretraining)
    settings = PretrainingSettings(source=source, **{name: arguments[name] for name in arguments if name in fields})
    tokenizer = source_tokenizer(settings)
    if tokenizer is None and isinstance(settings.init, str | os.PathLike):
        tokenizer = load_pretrained(settings.init, "encoder").pretrained.tokenizer
    elif tokenizer is None:
        tokenizer = getattr(settings.init, "pretrained", settings.init).tokenizer
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
