"""The public names of kbert and of its rooms: there without an import, listed, and those of their classes."""

import importlib
import pkgutil

import keras
import pytest
from helpers.run_python import run_python

import kbert

ROOMS = [module.name for module in pkgutil.iter_modules(kbert.__path__, "kbert.") if module.ispkg]
LAZY = ["kbert", *(room for room in ROOMS if hasattr(importlib.import_module(room), "__all__"))]


@pytest.mark.parametrize("package", LAZY)
def test_every_public_name_resolves(package):
    package = importlib.import_module(package)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    for name in package.__all__:
        found = getattr(package, name)
        assert found.__name__ == name and name in dir(package)
        if package is not kbert:  # a module of that name would take its place
            assert name not in modules and found.__module__.startswith(f"{package.__name__}.")
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'. Public names: "):
        package.nonsense  # noqa: B018


def test_rooms_are_attributes():
    program = """
    import json, sys, kbert
    heavy = {"tensorflow", "keras", "numpy"}
    names = kbert.layers.__all__ + kbert.preprocessing.__all__
    before = sorted(heavy & set(sys.modules))
    classes = [kbert.layers.SelfAttention, kbert.optim.WarmupLinearDecay, kbert.preprocessing.TextPreprocessor]
    print(json.dumps([before, [c.__name__ for c in classes], all(hasattr(kbert, room) for room in ROOMS)]))
    """.replace("ROOMS", repr([room.removeprefix("kbert.") for room in ROOMS]))
    assert run_python(program) == [[], ["SelfAttention", "WarmupLinearDecay", "TextPreprocessor"], True]


def test_every_class_that_keras_saves_is_public():
    for module in pkgutil.walk_packages(kbert.__path__, "kbert."):
        importlib.import_module(module.name)
    saved = {name.removeprefix("kbert>") for name in keras.saving.get_custom_objects() if name.startswith("kbert>")}
    public = {name for package in LAZY for name in importlib.import_module(package).__all__}
    assert len(saved) > 40 and saved <= public
