"""The scripts beside the documentation, which are in no package."""

import importlib.util

from helpers.paths import ROOT


def import_docs_script(name):
    """The module docs/maintainers/NAME.py."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs/maintainers" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
