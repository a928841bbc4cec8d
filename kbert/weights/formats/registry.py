"""The formats of checkpoints, one line each. A format's module is imported when it is first asked for."""

import functools
import importlib
import pathlib

from kbert.weights.formats.format import Format

_MODULES = {  # name → module whose `FORMAT` it is, in the order in which they are tried on a path
    "kbert": "kbert.weights.formats.kbert.format",
    "kerashub": "kbert.weights.formats.kerashub.format",
    "huggingface": "kbert.weights.formats.huggingface.format",  # before Google's, whose config is often copied along
    "google": "kbert.weights.formats.google.format",
}


def register_format(name: str, module: str) -> None:
    """Adds a format, which `load_pretrained`, `save_pretrained` and the recipes then know.

    Args:
        name: as in ``save_pretrained(format=name)``.
        module: name of a module that can be imported; its `FORMAT` is an instance of a `Format`.

    Raises:
        ValueError: the name is taken by another module.

    Example::

        register_format("numpy", "my_package.numpy_format")
    """
    if _MODULES.setdefault(name, module) != module:
        raise ValueError(f"Expected the name of a new format. Received: {name!r}, which is {_MODULES[name]}")


def format_names() -> tuple[str, ...]:
    return tuple(_MODULES)


def get_format(name: str) -> Format:
    if name not in _MODULES:
        raise ValueError(f"`format` must be one of {format_names()}. Received: {name!r}")
    return _imported(_MODULES[name])


def recognise_format(path) -> Format | None:
    """The format of what is at a path (directory, file or prefix of files), by its content; None: unknown."""
    path = pathlib.Path(path)
    return next((form for form in map(get_format, _MODULES) if form.recognises(path)), None)


@functools.cache
def _imported(module):
    return importlib.import_module(module).FORMAT
