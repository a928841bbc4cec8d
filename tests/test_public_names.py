"""The public names of kbert and of its rooms: there without an import, listed, and those of their classes."""

import importlib
import inspect
import pkgutil
import re

import keras
import pytest
from helpers.paths import ROOT
from helpers.run_python import run_python

import kbert

ROOMS = [module.name for module in pkgutil.iter_modules(kbert.__path__, "kbert.") if module.ispkg]
LAZY = ["kbert", *(room for room in ROOMS if hasattr(importlib.import_module(room), "__all__"))]


@pytest.mark.parametrize("package", LAZY)
def test_every_public_name_resolves(package):
    package = importlib.import_module(package)
    for name in package.__all__:
        found = getattr(package, name)
        if inspect.ismodule(found):
            assert found.__name__ == f"{package.__name__}.{name}"
        else:
            assert found.__name__ == name
            assert found.__module__.startswith((f"{package.__name__}.", "kbert.keras_compat"))
    assert dir(package) == package.__all__
    with pytest.raises(AttributeError, match=f"No {package.__name__} attribute nonsense"):
        package.nonsense  # noqa: B018


def test_kbert_shows_its_rooms():
    assert {room.removeprefix("kbert.") for room in ROOMS} <= set(dir(kbert))


@pytest.mark.slow  # its other tests, in one process
def test_rooms_are_attributes_and_functions_are_not_their_modules():
    """In a process of its own; a function that is named as its module is meant by the name."""
    program = """
    import importlib, json, sys, kbert
    heavy = {"tensorflow", "keras", "numpy"}
    names = kbert.layers.__all__ + kbert.preprocessing.__all__
    before = sorted(heavy & set(sys.modules))
    from kbert.corpus.write_records import write_records
    import kbert.corpus.write_records
    found = [kbert.corpus.write_records is write_records]
    import kbert.text.vocabulary
    not_yet = "kbert.text.learn_vocabulary" not in sys.modules
    found.append(callable(kbert.text.learn_vocabulary))
    module = importlib.import_module("kbert.text.learn_vocabulary")
    found.append(module.learn_vocabulary is kbert.text.learn_vocabulary)
    classes = [kbert.layers.SelfAttention, kbert.optim.WarmupLinearDecay, kbert.preprocessing.TextPreprocessor]
    rooms = all(hasattr(kbert, room) for room in ROOMS)
    print(json.dumps([before, not_yet, found, [c.__name__ for c in classes], rooms]))
    """.replace("ROOMS", repr([room.removeprefix("kbert.") for room in ROOMS]))
    classes = ["SelfAttention", "WarmupLinearDecay", "TextPreprocessor"]
    assert run_python(program) == [[], True, [True] * 3, classes, True]


def _public_docstrings():
    for package in LAZY:
        for name in importlib.import_module(package).__all__:
            found = getattr(importlib.import_module(package), name)
            members = list(vars(found).values()) if inspect.isclass(found) else []
            yield f"{package}.{name}", "\n".join(str(getattr(one, "__doc__", "")) for one in (found, *members))


def _named(text):
    """The names below kbert in a text, as it imports or writes them."""
    yield from re.findall(r"(?<![\w./])kbert(?!\.json)(?:\.[A-Za-z_]\w*)+", text)
    for package, names in re.findall(r"from (kbert[\w.]*) import ([\w, ]+)", text):
        yield from (f"{package}.{name.strip()}" for name in names.split(","))


def test_what_pages_and_public_docstrings_name_is_there_by_its_short_name():
    pages = [path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")) if path.name != "api.md"]
    texts = {path.name: path.read_text(encoding="utf-8") for path in pages} | dict(_public_docstrings())
    assert len(texts) > 150
    for place, text in texts.items():
        for name in _named(text):
            found, inner = kbert, False
            for part in name.split(".")[1:]:
                inner = inspect.ismodule(found) and found.__name__.count(".") > 1
                assert hasattr(found, part), f"{place}: {name}"
                found = getattr(found, part)
            assert not (inner and callable(found)), f"{place}: {name}: export it from its room, and name it by that"


def test_every_class_that_keras_saves_is_public():
    for module in pkgutil.walk_packages(kbert.__path__, "kbert."):
        if module.name != "kbert.inspection.playground.app":  # which needs the extra playground
            importlib.import_module(module.name)
    saved = {name.removeprefix("kbert>") for name in keras.saving.get_custom_objects() if name.startswith("kbert>")}
    public = {name for package in LAZY for name in importlib.import_module(package).__all__}
    assert len(saved) > 40 and saved <= public
