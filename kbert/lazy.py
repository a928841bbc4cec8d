"""Public names of a package, resolved on first use, so that importing the package costs nothing.

And what has to be done when another package is imported, whenever that is.
"""

import importlib
import importlib.util
import sys
import types


def lazy_exports(package: str, names: dict[str, str], subpackages: tuple[str, ...] = ()):
    """What a package's ``__init__.py`` needs to export names that its modules define.

    Modules can be used as attributes, too, without importing them. A public name may be that of the module that defines
    it: it means what is public, even where the module is imported.

    Args:
        package: ``__name__`` of the package.
        names: public name -> module of the package that defines it, such as ``{"AdamW": "adamw"}``.
        subpackages: those that ``dir`` shows beside the public names.

    Returns:
        ``__all__``, ``__getattr__`` and ``__dir__`` of the package.
    """
    public = sorted(names)

    class Package(types.ModuleType):
        """A class of its own, as Python sets each module on its package after the import, over what is public there."""

        def __setattr__(self, name, value):
            if names.get(name) == name and isinstance(value, types.ModuleType):
                value = getattr(value, name)
            super().__setattr__(name, value)

    sys.modules[package].__class__ = Package

    def __getattr__(name):
        if name in names:
            value = getattr(importlib.import_module(f"{package}.{names[name]}"), name)
            setattr(sys.modules[package], name, value)  # the next time it is found at once
            return value
        if importlib.util.find_spec(f"{package}.{name}") is not None:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}. Public names: {public}")

    def __dir__():
        return sorted({*public, *subpackages})

    return public, __getattr__, __dir__


def run_import(package: str, run) -> None:
    """Has `run(execute, module)` called in place of `execute(module)` when `package` is imported.

    If it is imported already, nothing happens. This is a hook in `sys.meta_path`, as Python has no other place for what
    is to be done at a later import, and `import kbert` would take seconds if it imported Keras or TensorFlow itself.
    """
    added = {finder.package for finder in sys.meta_path if isinstance(finder, _Finder)}
    if package not in sys.modules and package not in added:
        sys.meta_path.insert(0, _Finder(package, run))


class _Finder:
    """Finds a package as Python does, and executes it by `run`."""

    def __init__(self, package, run):
        self.package, self._run, self._is_searching = package, run, False

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
