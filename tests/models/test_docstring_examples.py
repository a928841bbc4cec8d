"""The example in the docstring of every layer and model runs, and gives the shape that it says."""

import importlib
import inspect
import pathlib
import re
import textwrap

import keras
import pytest
from helpers.paths import ROOT

from kbert.config import BertConfig


def _classes():
    for room in ("layers", "models"):
        for file in sorted(pathlib.Path(ROOT, "kbert", room).glob("[a-z]*.py")):
            module = importlib.import_module(f"kbert.{room}.{file.stem}")
            for _, cls in inspect.getmembers(module, inspect.isclass):
                if cls.__module__ == module.__name__:
                    yield cls


CLASSES = list(_classes())


@pytest.mark.parametrize("cls", [c for c in CLASSES if "Example::" in c.__doc__], ids=lambda c: c.__name__)
def test_example(cls):
    code = textwrap.dedent(cls.__doc__.split("Example::", 1)[1]).strip()
    *lines, last = code.splitlines()
    scope = vars(importlib.import_module(cls.__module__)) | {"keras": keras, "BertConfig": BertConfig}
    exec("\n".join(lines), scope)
    expression, _, comment = last.partition("  # ")
    value = eval(re.sub(r"^\w+ = ", "", expression), scope)
    if re.fullmatch(r"\[[\d, ]*\]", comment):
        assert list(value.shape) == eval(comment)


def test_every_public_class_has_one():
    public = [c for c in CLASSES if not c.__name__.startswith("_")]
    assert [c.__name__ for c in public if "Example::" not in c.__doc__] == ["BertModel"]
