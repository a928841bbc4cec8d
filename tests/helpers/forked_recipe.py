"""A recipe in a process of its own that is forked: see `ForkedPython`."""

from helpers.forked_python import ForkedPython
from helpers.run_recipe import RECIPES

_RUN = """
import runpy, sys
from helpers.curves_alone import curves_alone

curves_alone()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def start_recipe(name, *arguments):
    """Begins recipes/<name>.py with these arguments, and with `curves_alone`; returns the `ForkedPython`."""
    return ForkedPython(None, RECIPES / f"{name}.py", *arguments, code=_RUN)
