"""Writes docs/api.md: the public names of kbert and of its rooms, with the first line of their docstrings.

Run it after adding or renaming a public name: python docs/make_api.py
"""

import argparse
import importlib
import inspect
import pathlib
import pkgutil

import kbert

PATH = pathlib.Path(__file__).with_name("api.md")
_HEAD = """# API

Every public name with the first line of its docstring; `help(kbert.AdamW)` has the rest: arguments, shapes, errors, an
example. This page is made by `python docs/make_api.py`.
"""


def page() -> str:
    """The page as it should be."""
    rooms = [f"kbert.{room.name}" for room in pkgutil.iter_modules(kbert.__path__) if room.ispkg]
    packages = [kbert, *map(importlib.import_module, rooms)]
    return _HEAD + "".join(_section(package) for package in packages if getattr(package, "__all__", ()))


def _section(package):
    rows = [f"| `{name}` | {_first_line(getattr(package, name))} |" for name in package.__all__]
    lines = ["", f"## {package.__name__}", "", _first_line(package), "", "| name | what it is |", "|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _first_line(found):
    return inspect.getdoc(found).partition("\n")[0].replace("|", "\\|")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    PATH.write_text(page(), encoding="utf-8")
