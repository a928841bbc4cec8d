"""Public names of a package, resolved on first use, so that importing the package costs nothing."""

import importlib
import importlib.util
import pathlib
import sys
import types
from collections.abc import Callable
from typing import Any


def lazy_exports(package: str, file: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """What a package's ``__init__.py`` needs to export the names that its stub, ``__init__.pyi``, imports.

    The stub, which type checkers and editors read, has a line for each public name, such as ``from kbert.optim.adamw
    import AdamW as AdamW``, and for each subpackage that ``dir`` shows. Modules can be used as attributes, too, without
    importing them. A public name may be that of the module that defines it: it means what is public, even where the
    module is imported.

    Args:
        package: its name.
        file: its ``__init__.py``.

    Returns:
        ``__all__``, ``__getattr__`` and ``__dir__`` of the package.
    """
    names: dict[str, str] = {}  # public name → module that defines it
    subpackages: list[str] = []
    for line in pathlib.Path(file).with_suffix(".pyi").read_text("utf-8").splitlines():
        match line.split():
            case ["from", module, "import", name, "as", _]:
                if module == package:
                    subpackages.append(name)
                else:
                    names[name] = module
    public = sorted(names)

    class Package(types.ModuleType):
        """A class of its own, as Python sets each module on its package after the import, over what is public there."""

        def __setattr__(self, name, value):
            if names.get(name) == f"{package}.{name}" and isinstance(value, types.ModuleType):
                value = getattr(value, name)
            super().__setattr__(name, value)

    sys.modules[package].__class__ = Package

    def __getattr__(name):
        if name in names:
            value = getattr(importlib.import_module(names[name]), name)
            setattr(sys.modules[package], name, value)  # the next time it is found at once
            return value
        if importlib.util.find_spec(f"{package}.{name}") is not None:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}. Public names: {public}")

    def __dir__():
        return sorted({*public, *subpackages})

    return public, __getattr__, __dir__
