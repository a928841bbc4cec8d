"""A process that imports modules once, and forks a process for each request: a new one without seconds of imports.

TensorFlow computes nothing before the fork, so a forked process behaves as a new one of the TensorFlow backend.
Requests and answers are lines of JSON on standard input and output.
"""

import gc
import importlib
import json
import os
import subprocess
import sys

from helpers.paths import ROOT
from helpers.skip_sets import find_skip_sets_once


class ForkServer:
    """Starts a script that calls `serve`, and asks it.

    Args:
        script: its path.
        directory: that it works in; None: that of this process.
        **environment: variables that differ from those of this process.
    """

    def __init__(self, script, directory=None, **environment):
        paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            env=os.environ | paths | environment,
            text=True,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, **request):
        """The answer, a dict: see `serve`."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._process.args} ended with status {self._process.wait()}: run it to see why")
        return json.loads(answer)

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve(modules):
    """Imports modules and answers requests until standard input ends; in a forked process, returns what it is to do.

    {"poll": process} is answered by {"status": its exit status, None while it runs}; {"wait": process} by the status at
    its end; any other request by {"pid": the number of the process that was forked for it}.
    """
    for module in modules:
        importlib.import_module(module)
    find_skip_sets_once()
    gc.freeze()  # what is there before the fork is never looked at again: less memory is copied
    gc.set_threshold(50_000, 20, 20)  # as in conftest.py
    for line in sys.stdin:
        request = json.loads(line)
        if process := request.get("poll") or request.get("wait"):
            pid, status = os.waitpid(process, os.WNOHANG if "poll" in request else 0)
            answer = {"status": os.waitstatus_to_exitcode(status) if pid else None}
        else:
            if not (pid := os.fork()):
                return request
            answer = {"pid": pid}
        print(json.dumps(answer), flush=True)
    return None


def redirect(out, errors):
    """Standard input is empty from now on, and standard output and errors go to two open files."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for here, there in ((nothing, 0), (out, 1), (errors, 2)):
        os.dup2(here, there)
