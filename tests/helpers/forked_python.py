"""New Python processes without the seconds that importing TensorFlow takes: forked from one that has imported it.

TensorFlow has computed nothing before the fork, so a forked process behaves as a new one of the TensorFlow backend.
As a script this file is the process that forks. It reads requests from standard input and answers each with a line, all
JSON.
"""

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import time

MODULES = (
    "tensorflow",
    "tensorflow_text",
    "keras",
    "kbert.training.resume",
    "kbert.tasks.finetune",
)
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

        done = ForkedPython("recipes/predict.py", "--help").finish()
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


def _ask(**request):
    global _server
    if _server is None:
        here = os.path.dirname(os.path.abspath(__file__))
        tests, root = os.path.dirname(here), os.path.dirname(os.path.dirname(here))
        environment = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{tests}", "TF_CPP_MIN_LOG_LEVEL": "3"}
        _server = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__)],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(_end)
    _server.stdin.write(json.dumps(request) + "\n")
    _server.stdin.flush()
    return json.loads(_server.stdout.readline())


def _end():
    _server.stdin.close()
    _server.wait()


def _serve():
    """Answers requests until standard input ends; in a forked process, returns what it is to run."""
    for line in sys.stdin:
        request = json.loads(line)
        if "poll" in request:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = {"status": os.waitstatus_to_exitcode(status) if pid else None}
        else:
            if not (pid := os.fork()):
                return request
            answer = {"pid": pid}
        print(json.dumps(answer), flush=True)


def _run(request):
    nothing = os.open(os.devnull, os.O_RDONLY)
    out, errors = (os.open(log, os.O_WRONLY | os.O_APPEND) for log in request["logs"])
    for here, there in ((nothing, 0), (out, 1), (errors, 2)):
        os.dup2(here, there)
        os.close(here)
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


if __name__ == "__main__":
    for module in MODULES:
        importlib.import_module(module)
    gc.freeze()  # what is there before the fork is never looked at again: less memory is copied
    if request := _serve():
        _run(request)
