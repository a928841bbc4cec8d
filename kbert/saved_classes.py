"""Lets Keras load .keras files with classes of kbert as soon as kbert is imported.

Keras finds a custom class in its table (`keras.saving.get_custom_objects`) and nowhere else: it imports no modules
named in a file, and has no entry points for packages. A class is added to the table when its module is imported, but
importing all modules with kbert would import Keras and a backend. So when Keras is imported, a placeholder for each
class is added to the table, which imports the class when a file needs it.
"""

import importlib
import importlib.util
import sys

_SUBPACKAGES = ("layers", "optim", "models", "text", "preprocessing", "pretraining", "answers", "pipelines")


def register_saved_classes() -> None:
    """Adds the placeholders to Keras' table: at once if Keras has been imported, otherwise when it is."""
    if "keras" in sys.modules:
        _register()
    elif not any(isinstance(finder, _KerasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _KerasFinder())


def _register() -> None:
    table = importlib.import_module("keras").saving.get_custom_objects()
    for subpackage in _SUBPACKAGES:
        for name in importlib.import_module(f"kbert.{subpackage}").__all__:
            if name[0].isupper():  # a class; what is in the table already is the class itself
                table.setdefault(f"kbert>{name}", _Placeholder(subpackage, name))


class _Placeholder:
    """What Keras needs from a class in its table: `from_config`."""

    def __init__(self, subpackage: str, name: str):
        self._subpackage = subpackage
        self._name = name

    def from_config(self, config, **kwargs):
        return getattr(importlib.import_module(f"kbert.{self._subpackage}"), self._name).from_config(config, **kwargs)


class _KerasFinder:
    """Finds Keras as Python does, and calls `_register` after its import."""

    _is_searching = False

    def find_spec(self, name, path=None, target=None):
        if name != "keras" or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module):
                execute(module)
                _register()
                if self in sys.meta_path:
                    sys.meta_path.remove(self)

            spec.loader.exec_module = execute_and_register
        return spec
