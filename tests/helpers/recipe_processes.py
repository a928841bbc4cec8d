"""Recipes in processes of their own, forked from one that has imported TensorFlow, which faults of files may meet."""

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from helpers.fork_server import ForkServer
from helpers.paths import ROOT

HERE = pathlib.Path(__file__).parent
NO_FAULT: dict = {}


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a process ended: its exit status, negative for a signal; what it printed; its number of file operations."""

    status: int
    printed: str

    @property
    def operations(self):
        return int(re.search(r"^operations: (\d+)$", self.printed, re.MULTILINE)[1])

    @property
    def errors(self):
        """The lines that say what was wrong."""
        return re.findall(r"^(?:\S+: )?error: .*", self.printed, re.MULTILINE)


class RecipeProcesses:
    """Starts commands of kbert under file_faults.c, which is compiled into `directory`; a context manager.

    Args:
        directory: path.
        quick: as `curves_alone` and `run_eagerly` have it; a short run takes less time.

    Example::

        with RecipeProcesses(tmp_path) as processes:
            process = processes.start("pretrain", arguments, output, {"action": "kill", "moment": 100})
            ended = processes.wait(process)
    """

    def __init__(self, directory, quick=False):
        self.directory, self._quick = pathlib.Path(directory), quick
        self.directory.mkdir(parents=True, exist_ok=True)
        self._logs = {}
        self._server = ForkServer(HERE / "recipe_server.py", self.directory, LD_PRELOAD=str(_compiled(self.directory)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.close()

    def start(self, recipe, arguments, output, fault=NO_FAULT):
        """Begins a command, such as "finetune span", that writes to `output`; returns the process' number.

        fault: "action" ("kill", "full", "fail", "signal"), "moment" (of file operations below `output`), "number" (of
        the signal or the error); "file_size" that no file may exceed; "poison", a step.
        """
        log = self.directory / f"log-{len(self._logs)}"
        answer = self._server.ask(
            recipe=str(ROOT / "kbert" / "__main__.py"),
            arguments=[*recipe.split(), *map(str, arguments)],
            log=str(log),
            within=os.path.realpath(output),
            report=str(self.directory / f"unsynced-{len(self._logs)}"),
            quick=self._quick,
            **fault,
        )
        self._logs[answer["pid"]] = log
        return answer["pid"]

    def wait(self, process, seconds=600):
        """How the process ended.

        Raises:
            AssertionError: it had not ended by itself after that many seconds.
        """
        late = threading.Timer(seconds, os.kill, (process, signal.SIGKILL))
        late.start()
        status = self._server.ask(wait=process)["status"]
        ended_late = late.finished.is_set()
        late.cancel()
        printed = self._logs[process].read_text(errors="replace")
        assert not ended_late, f"still running after {seconds} s:\n{printed}"
        return Ended(status, printed)

    def run(self, recipe, arguments, output, fault=NO_FAULT):
        """Starts and waits."""
        return self.wait(self.start(recipe, arguments, output, fault))

    def lose_unsynced(self, process, output):
        """Cuts files off where they ended when they were last forced onto the disk, as a power cut does."""
        report = self._logs[process].with_name(self._logs[process].name.replace("log", "unsynced"))
        sizes = dict(map(int, line.split()) for line in report.read_text().splitlines())
        for file in pathlib.Path(output).rglob("*"):
            if file.is_file() and sizes.get(file.stat().st_ino, sys.maxsize) < file.stat().st_size:
                os.truncate(file, sizes[file.stat().st_ino])


def _compiled(directory):
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        pytest.skip("faults of files need Linux and a C compiler (gcc, cc or clang)")
    library = directory / "file_faults.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, HERE / "file_faults.c", "-ldl"], check=True)
    return library
