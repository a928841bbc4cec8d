"""Public names of a package, resolved on first use, so that importing the package costs nothing."""

import importlib


def lazy_exports(package: str, names: dict[str, str], subpackages: tuple[str, ...] = ()):
    """What a package's ``__init__.py`` needs to export names that its modules define.

    A public name must not be that of one of the package's modules: importing the module would replace it.

    Args:
        package: ``__name__`` of the package.
        names: public name -> module of the package that defines it, such as ``{"AdamW": "adamw"}``.
        subpackages: subpackages and modules that can be used as attributes without importing them.

    Returns:
        ``__all__``, ``__getattr__`` and ``__dir__`` of the package.

    Raises:
        AttributeError: on access to a name that is not public; the message lists those that are.
    """
    public = sorted(names)

    def __getattr__(name):
        if name in subpackages:
            return importlib.import_module(f"{package}.{name}")
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}. Public names: {public}")
        value = getattr(importlib.import_module(f"{package}.{names[name]}"), name)
        setattr(importlib.import_module(package), name, value)  # the next time it is found at once
        return value

    def __dir__():
        return sorted({*vars(importlib.import_module(package)), *public, *subpackages})

    return public, __getattr__, __dir__
