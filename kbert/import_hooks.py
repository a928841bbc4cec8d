"""What is done when Keras or TensorFlow is imported, whenever that is: `import kbert` imports neither.

Keras looks up the classes in a .keras file in its table of custom objects, to which a class is added when its module is
imported, and asks nobody about a name that it does not have. Importing all classes beforehand would import Keras with
kbert. So as soon as Keras is imported, a placeholder for each class of kbert is added to it, which imports the class
when a file needs it. TensorFlow's start-up messages are hidden, and an environment variable that keeps tensorflow-text
from being imported is named.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable

_SUBPACKAGES = ("layers", "optim", "models", "text", "preprocessing", "pretraining", "answers", "pipelines")

# What absl writes before TensorFlow has told it that TF_CPP_MIN_LOG_LEVEL holds, which TensorFlow 2.21 does too late.
_START_UP = rb"WARNING: All log messages before absl::InitializeLog\(\)|[IWE]\d{4} .*\.cc:\d+\] "


def register_saved_classes() -> None:
    """Adds the placeholders to Keras' table: at once if Keras has been imported, otherwise when it is."""
    if "keras" in sys.modules:
        _register()
    else:
        _run_import("keras", _import_and_register)


def _import_and_register(execute, module) -> None:
    execute(module)
    _register()


def _register() -> None:
    table = importlib.import_module("keras").saving.get_custom_objects()
    for subpackage in _SUBPACKAGES:
        for name in importlib.import_module(f"kbert.{subpackage}").__all__:
            if name[0].isupper():  # a class; what is in the table already is the class itself
                table.setdefault(f"kbert>{name}", _StandIn(subpackage, name))


class _StandIn:
    """A placeholder with what Keras needs from a class in its table: `from_config`."""

    def __init__(self, subpackage: str, name: str):
        self._subpackage = subpackage
        self._name = name

    def from_config(self, config, **kwargs):
        return getattr(importlib.import_module(f"kbert.{self._subpackage}"), self._name).from_config(config, **kwargs)


def quiet_tensorflow() -> None:
    """Hides the messages that TensorFlow writes when it is imported and starts, if that is still to come.

    Exceptions, and everything that is not a line of TensorFlow's C++ log, are still shown. If the environment variable
    ``TF_CPP_MIN_LOG_LEVEL`` is 0, everything is shown.
    """
    _run_import("tensorflow", _run_quietly)


def _run_quietly(execute, module) -> None:
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        return execute(module)
    import re  # not on import: `import kbert` costs nothing
    import tempfile

    try:
        sys.stderr.flush()
        before = os.dup(2)
    except (AttributeError, OSError):  # a program without standard error
        return execute(module)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            execute(module)
        finally:
            os.dup2(before, 2)
            os.close(before)
            held.seek(0)
            for line in held:
                if not re.match(_START_UP, line):
                    os.write(2, line)


def explain_legacy_keras() -> None:
    """Names the environment variable that keeps tensorflow-text, which needs `tf.keras`, from being imported."""
    _run_import("tensorflow_text", _run_with_keras)


def _run_with_keras(execute, module) -> None:
    value = os.environ.get("TF_USE_LEGACY_KERAS")
    if value in ("1", "true", "True") and importlib.util.find_spec("tf_keras") is None:
        raise ImportError(
            f"TF_USE_LEGACY_KERAS={value} makes TensorFlow look for Keras 2 (tf_keras), which is not installed, and "
            "tensorflow-text cannot be imported without it. kbert uses Keras 3: unset the variable.",
            name="tf_keras",
        )
    execute(module)


def _run_import(package: str, run: Callable) -> None:
    """Has `run(execute, module)` called in place of `execute(module)` when a package that is not imported yet is."""
    added = {finder.package for finder in sys.meta_path if isinstance(finder, _Finder)}
    if package not in sys.modules and package not in added:
        sys.meta_path.insert(0, _Finder(package, run))


class _Finder:
    """Finds a package as Python does, and executes it by `run`."""

    def __init__(self, package, run):
        self.package = package
        self._run = run
        self._is_searching = False

    def find_spec(self, name, path=None, target=None):
        if name != self.package or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_once(module):
                self._run(execute, module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)

            spec.loader.exec_module = execute_once
        return spec
