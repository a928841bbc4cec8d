"""New Python processes without the seconds that importing TensorFlow takes: forked from one that has imported it.

As a script this file is the process that forks.
"""

import atexit
import importlib
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import time

from helpers.fork_server import ForkServer, redirect, serve
from helpers.paths import ROOT

MODULES = ("tensorflow", "tensorflow_text", "keras", "kbert.training.loop", "kbert.finetuning.finetune")
_POLL_SECONDS = 0.02
_server = None


class ForkedPython:
    """Like `subprocess.Popen` of ``python PROGRAM ARGUMENTS`` or ``python -c CODE ARGUMENTS``, with text pipes.

    Args:
        program: the path of a script; None with `code`.
        *arguments: its arguments; they are passed as strings.
        code: the program itself.
        **environment: variables that differ from those of this process.

    Example::

        done = ForkedPython("recipes/pretrain.py", "--help").finish()
        assert done.returncode == 0, done.stderr
    """

    def __init__(self, program=None, *arguments, code=None, **environment):
        self._logs = [tempfile.NamedTemporaryFile("w+", errors="replace") for _ in range(2)]
        self.returncode = None
        self.pid = _ask(
            program=None if program is None else str(program),
            code=code,
            arguments=[str(a) for a in arguments],
            environment=dict(os.environ) | environment,
            directory=os.getcwd(),
            logs=[log.name for log in self._logs],
        )["pid"]

    def poll(self):
        """The exit status, negative for a signal; None while it runs."""
        if self.returncode is None:
            self.returncode = _ask(poll=self.pid)["status"]
        return self.returncode

    def wait(self, timeout=600):
        """The exit status; after that many seconds the process is killed, and TimeoutExpired raised."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(self.pid, timeout, *self._printed())
            time.sleep(_POLL_SECONDS)
        return self.returncode

    def communicate(self, timeout=600):
        """(standard output, standard error), when it has ended."""
        self.wait(timeout)
        return self._printed()

    def finish(self, timeout=600):
        """A `subprocess.CompletedProcess`."""
        out, errors = self.communicate(timeout)
        return subprocess.CompletedProcess(self.pid, self.returncode, out, errors)

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def _printed(self):
        for log in self._logs:
            log.seek(0)
        return tuple(log.read() for log in self._logs)


_KBERT = """
import runpy, sys
from helpers.curves_alone import curves_alone

curves_alone()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


_EAGERLY = """
from helpers.run_eagerly import run_eagerly

run_eagerly().__enter__()
"""


def start_kbert(*arguments, eagerly=False):
    """Begins ``kbert`` with these arguments, and with `curves_alone`; returns the `ForkedPython`.

    eagerly: with `run_eagerly`, too.
    """
    code = _EAGERLY + _KBERT if eagerly else _KBERT
    return ForkedPython(None, ROOT / "kbert" / "__main__.py", *arguments, code=code)


def _ask(**request):
    global _server
    if _server is None:
        _server = ForkServer(__file__)
        atexit.register(_server.close)
    return _server.ask(**request)


def _run(request):
    redirect(*(os.open(log, os.O_WRONLY | os.O_APPEND) for log in request["logs"]))
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    random.seed()
    importlib.import_module("numpy").random.seed()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [request["program"] or "-c", *request["arguments"]]
    if request["program"] is not None:
        sys.path[0] = os.path.dirname(request["program"])
        runpy.run_path(request["program"], run_name="__main__")
    else:
        sys.path[0] = ""
        exec(compile(request["code"], "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__" and (request := serve(MODULES)):
    _run(request)
