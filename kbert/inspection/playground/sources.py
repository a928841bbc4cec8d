"""Models that may be asked: those that were named, those below TensorBoard's log directories, and what the page says.

No weights are read.
"""

import dataclasses
import logging
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from kbert.files import read_json
from kbert.inspection.playground.app import first_line
from kbert.pipelines.registry import task_class, task_names
from kbert.serving.saved_model_file import find_export
from kbert.tasks.task import Task
from kbert.weights.source import open_checkpoint
from kbert.weights.step_paths import CHECKPOINTS, checkpoint_paths, checkpoint_step, find_step_checkpoint

_LOGGER = logging.getLogger("kbert")
_DEEPEST = 6  # levels below a log directory
_DIRECTORIES = 20_000  # looked at in a log directory
_MODELS = 200  # from all log directories together
_CONFIG = "config.json"
_WEIGHTS = "model.safetensors"
_CARD = "card.json"
_GRAPH = "saved_model.pb"
_WITHOUT_MODEL = ("masking", "next_sentence", "input_representation")
_UNKNOWN = dict.fromkeys(("kind", "task", "layers", "heads", "hidden_dim", "max_length", "views", "note"))


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """A model that may be asked: its name on the page, and its path as it was given or found."""

    name: str
    path: str

    @property
    def is_saved_model(self) -> bool:
        """Whether it is a SavedModel of `kbert.export` without the model beside it."""
        path = pathlib.Path(self.path)
        return _has_export(path) and not (path / "model" / _CONFIG).is_file()


def named_sources(paths: Iterable[str | os.PathLike]) -> list[ModelSource]:
    """The given sources, each named by the last part of its path that says something."""
    paths = list(dict.fromkeys(str(path) for path in paths))
    names = [_name(path) for path in paths]
    return [ModelSource(n if names.count(n) == 1 else path, path) for n, path in zip(names, paths, strict=True)]


def found_sources(log_dirs: Iterable[str | os.PathLike]) -> list[ModelSource]:
    """The models below log directories: kbert's runs and their checkpoints, model directories, SavedModels.

    An unfinished run is offered by its own name, which means its latest checkpoint, and each checkpoint as RUN@STEP.
    The ``logs`` of a run stand for that run. Symbolic links are not followed, and models with links that lead
    out are skipped, as are places that are not here, such as buckets.
    """
    sources = []
    for log_dir in log_dirs:
        root = pathlib.Path(os.path.expanduser(log_dir)).resolve()
        if not root.is_dir():
            continue
        run = root.parent
        if root.name == "logs" and (run / "settings.json").is_file():
            beside = _models_at(run, run, {"model"}, set())
            sources += [ModelSource(run.name + step, f"{place}{step}") for place, step in beside]
        for place, step in _models_below(root):
            relative = root.name if place == root else str(place.relative_to(root))
            sources.append(ModelSource(relative + step, f"{place}{step}"))
    if len(sources) > _MODELS:
        _LOGGER.info("playground: the first %s of %s models of the log directories are offered", _MODELS, len(sources))
    return sources[:_MODELS]


def _has_export(directory: pathlib.Path) -> bool:
    """Whether a directory holds a SavedModel of `kbert.export`, or versions of one."""
    export = find_export(directory)
    return export is not None and (export / _CARD).is_file()


def _models_below(root) -> Iterator[tuple[pathlib.Path, str]]:
    """(path, "") of models and (run, "@STEP") of checkpoints, sorted by name."""
    seen = 0
    for place, directories, files in os.walk(root):  # which does not follow symbolic links
        here, seen = pathlib.Path(place), seen + 1
        if seen > _DIRECTORIES:
            _LOGGER.info(
                "playground: %s has more than %s directories; models in others are not offered", root, seen - 1
            )
            return
        models = list(_models_at(here, root, directories, files))
        yield from models
        is_model = models == [(here, "")] and "model" not in directories
        if is_model or len(here.relative_to(root).parts) >= _DEEPEST:
            directories.clear()
        inner = ("model", CHECKPOINTS, "logs") if models else ()  # of a run
        directories[:] = sorted(name for name in directories if name not in inner and not name.startswith("."))


def _models_at(here, root, directories, files):
    may_be_export = _GRAPH in files or any(name.isdecimal() for name in directories)
    if (_CONFIG in files and _WEIGHTS in files) or (may_be_export and _has_export(here)):
        if _stays_inside(here, root):
            yield here, ""
        return
    model, checkpoints = here / "model", here / CHECKPOINTS
    has_model = "model" in directories and (model / _CONFIG).is_file() and _stays_inside(model, root)
    steps = []
    if (checkpoints / "description" / _CONFIG).is_file() and _stays_inside(checkpoints, root):
        steps = [f"@{checkpoint_step(path)}" for path in checkpoint_paths(checkpoints)]
    if has_model or (steps and find_step_checkpoint(here) is not None):
        yield here, ""
    yield from ((here, step) for step in steps)


def _stays_inside(directory, root):
    """Whether nothing in a directory of a model, nor the directory itself, leads out of `root`."""
    return all(
        path.resolve().is_relative_to(root)
        for path in (directory, *directory.rglob("*"))
        if path is directory or path.is_symlink()
    )


def _name(path):
    parts = pathlib.PurePath(path).parts
    while len(parts) > 1 and (parts[-1] == "model" or parts[-1].isdecimal()):
        parts = parts[:-1]
    return parts[-1] if parts else path


def views_of_task(task: str) -> tuple[str, ...]:
    """The views in which a model of this task gives its answers."""
    return (task_class(task) if task in task_names() else Task).playground_views


def describe(source: ModelSource) -> dict[str, Any]:
    """Kind, task, sizes, views and a note, as JSON; no weights are read."""
    if source.is_saved_model:
        return _describe_saved_model(source)
    stored = open_checkpoint(source.path)
    config = stored.description.config
    task = stored.description.task
    if stored.vocabulary is None:
        views = ()
        note = "It has no vocabulary: write a model directory with one by kbert.save_pretrained."
    else:
        views = (*_WITHOUT_MODEL, "attention", *views_of_task(task))
        note = ""
    return {
        "kind": "kbert",
        "task": task,
        "layers": config.num_layers,
        "heads": config.num_heads,
        "hidden_dim": config.hidden_dim,
        "max_length": config.max_sequence_length,
        "views": list(views),
        "note": note,
    }


def _describe_saved_model(source):
    path = find_export(source.path) / _CARD
    card = read_json(path)
    try:
        task = card["task"]
        signatures = sorted(card["signatures"])
        length = card["settings"].get("sequence_length")
    except (AttributeError, KeyError, TypeError):
        raise ValueError(f"{path}: expected the card of a SavedModel of kbert.export. Received: another file") from None
    views = [*views_of_task(task), *(["next_sentence"] if "next_sentence" in signatures else [])]
    note = (
        f"A SavedModel gives the answers of its signatures ({', '.join(signatures)}); its masks, embeddings and "
        "attention cannot be seen."
    )
    if "next_sentence" in views:
        note += " Pairs for it are made with the vocabulary of the playground; it reads their sentences."
    return _UNKNOWN | {"kind": "saved_model", "task": task, "max_length": length, "views": views, "note": note}


def unreadable(source: ModelSource, error: Exception) -> dict[str, Any]:
    """The description of a model that cannot be read: it has no views, and the note says why."""
    kind = "saved_model" if source.is_saved_model else "kbert"
    return _UNKNOWN | {"kind": kind, "views": [], "note": f"It cannot be read: {first_line(error)}"}
