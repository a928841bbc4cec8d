"""Which models the playground was pointed at, and which lie below TensorBoard's log directories."""

import dataclasses
import logging
import os
import pathlib
from collections.abc import Iterable, Iterator

from kbert.weights.source import CHECKPOINTS, checkpoint_paths, checkpoint_step, find_step_checkpoint

_LOGGER = logging.getLogger("kbert")
_DEEPEST = 6  # levels below a log directory
_DIRECTORIES = 20_000  # looked at in a log directory
_MODELS = 200  # from all log directories together
_CONFIG, _WEIGHTS, _CARD, _GRAPH = "config.json", "model.weights.h5", "card.json", "saved_model.pb"


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """A model that may be asked: its name on the page, and its path as it was given or found."""

    name: str
    path: str

    @property
    def is_saved_model(self) -> bool:
        """Whether it is a SavedModel of `kbert.export` without the model beside it."""
        path = pathlib.Path(self.path)
        return has_export(path) and not (path / "model" / _CONFIG).is_file()


def named_sources(paths: Iterable[str | os.PathLike]) -> list[ModelSource]:
    """The given sources, each named by the last part of its path that says something."""
    paths = list(dict.fromkeys(str(path) for path in paths))
    names = [_name(path) for path in paths]
    return [ModelSource(n if names.count(n) == 1 else path, path) for n, path in zip(names, paths, strict=True)]


def found_sources(log_dirs: Iterable[str | os.PathLike]) -> list[ModelSource]:
    """The models below log directories: kbert's runs and their checkpoints, kbert directories, SavedModels.

    An unfinished run is offered by its own name, which means its latest checkpoint, and each
    checkpoint as RUN@STEP. The ``logs`` of a run stand for that run. Only what lies in the log
    directory (or the run) is read: symbolic links are not followed, and models with links that lead
    out are skipped. Log directories that are not here, such as a bucket's, are skipped too.
    """
    found = []
    for log_dir in log_dirs:
        root = pathlib.Path(os.path.expanduser(log_dir)).resolve()
        if root.is_dir():
            run = root.parent
            if root.name == "logs" and (run / "settings.json").is_file():
                beside = _models_at(run, run, {"model"}, set())
                found += [ModelSource(run.name + step, f"{place}{step}") for place, step in beside]
            for place, step in _models_below(root):
                relative = root.name if place == root else str(place.relative_to(root))
                found.append(ModelSource(relative + step, f"{place}{step}"))
    if len(found) > _MODELS:
        _LOGGER.info("playground: the first %s of %s models below the log directories are offered", _MODELS, len(found))
    return found[:_MODELS]


def has_export(directory: pathlib.Path) -> bool:
    """Whether a directory holds a SavedModel of `kbert.export`, or versions of one."""
    if not directory.is_dir():
        return False
    versions = [path for path in directory.iterdir() if path.name.isdecimal()]
    return any((path / _GRAPH).is_file() and (path / _CARD).is_file() for path in [directory, *versions])


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
    if (_CONFIG in files and _WEIGHTS in files) or (may_be_export and has_export(here)):
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
