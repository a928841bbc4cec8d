"""A command of kbert in a process of its own that is forked: see `ForkedPython`."""

from helpers.forked_python import ForkedPython
from helpers.paths import ROOT

_RUN = """
import runpy, sys
from helpers.curves_alone import curves_alone

curves_alone()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def start_kbert(*arguments):
    """Begins ``kbert`` with these arguments, and with `curves_alone`; returns the `ForkedPython`."""
    return ForkedPython(None, ROOT / "kbert" / "__main__.py", *arguments, code=_RUN)
