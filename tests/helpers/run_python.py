"""A Python process of its own: for another backend, other devices, or a world without TensorFlow."""

import json
import os
import subprocess
import sys
import textwrap

from helpers.forked_python import ForkedPython
from helpers.paths import ROOT

BLOCK_TENSORFLOW = """
import sys

class _NoTensorFlow:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "tensorflow_text", "tf_keras"):
            raise ImportError(f"{name} is blocked in this test")

sys.meta_path.insert(0, _NoTensorFlow())
"""


def assert_imports_none(statements, *modules):
    """A process that runs the statements has not imported these modules."""
    code = f"import sys; {statements}; found = {set(modules)} & set(sys.modules); sys.exit(str(found) if found else 0)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def run_python(script, *arguments, backend="tensorflow", timeout=600, forked=False):
    """Runs the script; returns what its last line, a JSON object, says.

    forked: in a process in which TensorFlow and kbert are imported already, which saves seconds.
    """
    environment = os.environ | {
        "KERAS_BACKEND": backend,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    if forked and backend == "tensorflow":
        run = ForkedPython(None, *arguments, code=textwrap.dedent(script), **environment).finish(timeout)
    else:
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    assert run.returncode == 0, run.stderr[-4000:]
    return json.loads(run.stdout.splitlines()[-1])
