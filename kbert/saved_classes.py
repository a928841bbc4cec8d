"""kbert's classes in saved Keras files: ``import kbert; keras.models.load_model("x.keras")`` finds them.

Keras looks up the classes in a file in its table of custom objects, to which a class is added when its module is
imported. Importing kbert imports neither these modules nor Keras. As soon as Keras is imported, a placeholder for each
class is therefore added to the table; it imports the class when a file needs it.
"""

import importlib
import sys

from kbert.lazy import run_import

_SUBPACKAGES = ("layers", "optim", "models", "text", "preprocessing", "pretraining", "answers", "pipelines")


def register_saved_classes():
    """Adds the placeholders: at once if Keras has been imported, otherwise when it is."""
    if "keras" in sys.modules:
        _register()
    else:
        run_import("keras", _import_and_register)


def _import_and_register(execute, module):
    execute(module)
    _register()


def _register():
    table = importlib.import_module("keras").saving.get_custom_objects()
    for subpackage in _SUBPACKAGES:
        for name in importlib.import_module(f"kbert.{subpackage}").__all__:
            if name[0].isupper():  # a class; what is in the table already is the class itself
                table.setdefault(f"kbert>{name}", _StandIn(subpackage, name))


class _StandIn:
    """A placeholder with what Keras needs from a class in its table: `from_config`."""

    def __init__(self, subpackage, name):
        self._subpackage = subpackage
        self._name = name

    def from_config(self, config, **kwargs):
        return getattr(importlib.import_module(f"kbert.{self._subpackage}"), self._name).from_config(config, **kwargs)
