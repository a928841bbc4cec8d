"""Runs that meet faults: what may go wrong, and what a run owes its user then.

A fault befalls the first process of a run, or the files on the disk after it was killed. Then the same command is given
again. It must end with the results of an undisturbed run, bit for bit, or refuse with one line that names the fault,
and end with those results once it is put right. Anything else is an AssertionError.
"""

import dataclasses
import errno
import os
import pathlib
import random
import shutil
import signal
import time

from helpers.fault_results import Results

STEPS = 8
_SHORT = ("--batch-size", 4, "--sequence-length", 16, "--checkpoint-every", 2, "--steps", STEPS)
_PRETRAIN = (*_SHORT, "--max-predictions", 3, "--evaluation-batches", 1, "--log-every", 1)
RECIPES = {  # command, inputs by flag, other flags
    "text": ("pretrain", {"": "corpus.txt", "--vocabulary": "vocab.txt"}, (*_PRETRAIN, "--held-out", 0.2)),
    "records": ("pretrain", {"": "records", "--init": "init"}, _PRETRAIN),
    "table": (
        "finetune classification",
        {"--train": "train.csv", "--source": "init"},
        (*_SHORT, "--dev", 0.1),
    ),
    "phases": (
        "pretrain",
        {"": "records", "--init": "init"},
        (*_PRETRAIN[2:], "--phases", "12:0.5", "16:0.5:2", "--packed", "--log-every", 3, "--batch-size", 4),
    ),
    "patience": (
        "finetune classification",
        {"--train": "train.csv", "--source": "init"},
        (*_SHORT, "--dev", 0.1, "--evaluate-every", 1, "--patience", 3, "--checkpoint-every", 3),
    ),
    "predict": (
        "predict",
        {"--source": "classifier", "--input": "texts.txt"},
        ("--batch-size", 4),
    ),
}
_SIGNALS = {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
_DAMAGES = ("truncated", "flipped", "zeroed", "deleted")
_ERRORS = ("full disk", "file too large", "I/O error", "not a number")
KINDS = ("kill", "kill at a time", "power cut", *_SIGNALS, *_DAMAGES, "other input", "two at once", *_ERRORS)


@dataclasses.dataclass(frozen=True)
class Fault:
    """A kind of `KINDS`; when, as a fraction of the run below 1; a seed for which of several files or sizes."""

    kind: str
    moment: float
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Reference:
    """What a run ends with that nothing befalls, how many file operations it makes, and how long it takes."""

    results: Results
    operations: int
    seconds: float
    largest: int


def random_faults(count, seed=0):
    """`count` pairs of a key of `RECIPES` and a fault, each kind about as often as any other."""
    source = random.Random(seed)
    recipes = ("text", "records", "table", "table")
    return [
        (source.choice(recipes), Fault(KINDS[i % len(KINDS)], source.random(), source.randrange(2**30)))
        for i in range(count)
    ]


class FaultRun:
    """A run in a directory of its own that meets one fault.

    Args:
        processes: `RecipeProcesses`.
        home: what `write_inputs` wrote; it is copied, as faults change it.
        place: a path where nothing is yet.
        recipe: key of `RECIPES`.
    """

    def __init__(self, processes, home, place, recipe):
        shutil.copytree(home, place)
        self.processes, self.place, self.output = processes, place, place / "run"
        self.recipe, inputs, flags = RECIPES[recipe]
        self.inputs = [place / name for name in inputs.values()]
        paths = [part for flag, name in inputs.items() for part in (flag, place / name) if part]
        self.written = self.output / "answers.jsonl" if self.recipe == "predict" else self.output
        self.arguments = [*paths, *flags, "--output", self.written]

    def undisturbed(self):
        """The `Reference`."""
        start = time.monotonic()
        ended = self._run()
        assert ended.status == 0, ended.printed
        seconds = time.monotonic() - start
        largest = max(path.stat().st_size for path in self.output.rglob("*") if "logs" not in path.parts)
        return Reference(Results.of(self.output), ended.operations, seconds, largest)

    def meet(self, reference, *faults):
        """What became of each fault in turn. One that alters files must not be followed by one that ends with an error.

        Returns:
            a list: "survived" by the process that met it, "resumed", or "refused" until the files were right again. The
            list ends with the first fault that was survived, or before one that meets a finished run.

        Raises:
            AssertionError: another result, no clear line, a traceback, a process that does not end.
        """
        self.reference = reference
        outcomes, put_right, history = [], None, True
        for fault in (*faults, None):
            ended = self._befall(fault)
            if put_right is not None and ended.status == 1 and not self._is_finished(ended):
                self._check_refusal(ended, faults[len(outcomes) - 1])
                put_right()
                outcomes[-1] = "refused"
                ended = self._befall(fault)
            elif put_right is not None:
                kind = faults[len(outcomes) - 1].kind
                assert kind != "other input" or self._is_finished(ended), f"taken without a word:\n{ended.printed}"
                history = history and self.altered.name != "history.jsonl"
            put_right = None
            if self._is_finished(ended):  # killed between its last file and the deletion of what it no longer needs
                shutil.rmtree(self.output / "checkpoints", ignore_errors=True)
                break
            if fault is None:
                assert ended.status == 0, ended.printed
            else:
                self._check_end(ended, fault)
                outcomes.append("resumed" if ended.status else "survived")
                history = history and fault.kind not in _SIGNALS  # a window in which it came is in two parts
                if ended.status == 0:
                    break
                put_right = self._alter(fault)
        Results.of(self.output).check(reference.results, history)
        return outcomes

    def _run(self, fault=None):
        ended = self.processes.run(self.recipe, self.arguments, self.output, fault or {})
        assert "Traceback" not in ended.printed, ended.printed
        return ended

    def _befall(self, fault):
        """How the process ended that a fault befell; None: that nothing befell."""
        if fault is None:
            return self._run()
        if fault.kind == "two at once":
            return self._two_at_once(fault)
        moment = 1 + int(fault.moment * self.reference.operations)
        if fault.kind in ("kill at a time", "power cut"):
            timed = fault.kind == "kill at a time"
            request = {} if timed else {"action": "kill", "moment": moment}
            process = self.processes.start(self.recipe, self.arguments, self.output, request)
            if timed:
                time.sleep(fault.moment * self.reference.seconds)
                os.kill(process, signal.SIGKILL)
            ended = self.processes.wait(process)
            if ended.status and not timed:
                self.processes.lose_unsynced(process, self.output)
            return ended
        if fault.kind == "other input" and not self.output.exists():  # a run that has hardly begun may take any
            moment = int(self.reference.operations * (0.4 + 0.5 * fault.moment))
        size = random.Random(fault.seed).randrange(1000, self.reference.largest)
        request = {
            "SIGTERM": {"action": "signal", "number": signal.SIGTERM},
            "SIGINT": {"action": "signal", "number": signal.SIGINT},
            "full disk": {"action": "full"},
            "I/O error": {"action": "fail", "number": errno.EIO},
            "file too large": {"file_size": size},
            "not a number": {"poison": int(fault.moment * STEPS)},
        }.get(fault.kind, {"action": "kill"})
        return self._run({"moment": moment, **request})

    def _two_at_once(self, fault):
        """The end of the one that finishes; the other must say who is in its way."""
        one = self.processes.start(self.recipe, self.arguments, self.output)
        time.sleep(fault.moment * self.reference.seconds)
        two = self.processes.start(self.recipe, self.arguments, self.output)
        finished, refused = sorted(map(self.processes.wait, (one, two)), key=lambda ended: ended.status)
        printed = finished.printed + refused.printed
        assert "Traceback" not in printed, printed
        assert (finished.status, refused.status, len(refused.errors)) == (0, 1, 1), printed
        assert str(self.output) in refused.errors[0], refused.printed
        return finished

    def _check_end(self, ended, fault):
        """A process ends as its kind of fault ends a process, and says so."""
        if fault.kind in _SIGNALS:
            number = _SIGNALS[fault.kind]
            assert ended.status in (0, 128 + number, -number), ended.printed
        elif fault.kind in _ERRORS:
            assert ended.status in (0, 1) and len(ended.errors) == ended.status, f"{ended.status}: {ended.printed}"
            assert fault.kind != "not a number" or "step" in ended.errors[0], ended.printed
        elif fault.kind != "two at once":
            assert ended.status in (0, -signal.SIGKILL), ended.printed

    def _alter(self, fault):
        """Damages a file of the run or replaces an input, where the fault is one; returns what puts it right."""
        source = random.Random(fault.seed)
        if fault.kind in _DAMAGES and (files := sorted(path for path in self.output.rglob("*") if path.is_file())):
            self.altered = source.choice(files)
            return damage(self.altered, fault.kind, source)
        if fault.kind == "other input":
            self.altered = source.choice(self.inputs)
            return replace(self.altered, self.place / "other" / self.altered.name)
        return None

    def _check_refusal(self, ended, fault):
        """One line, which names the file; of a damaged one in the run it may name the run, or an input it recorded."""
        name = self.place if fault.kind in _DAMAGES else self.altered
        assert len(ended.errors) == 1 and str(name) in ended.errors[0], ended.printed

    def _is_finished(self, ended):
        """Whether the process refused as the run was finished already: killed in its last moment."""
        if self.recipe == "predict":
            return ended.status == 1 and f"{self.written} already exists" in "".join(ended.errors)
        return ended.status == 1 and "finished run" in "".join(ended.errors) and (self.output / "metrics.json").exists()


def damage(path, kind, source):
    """Truncates, zeroes or deletes a file, or flips one bit of it; returns a function that undoes it."""
    content = path.read_bytes()
    if kind == "deleted":
        path.unlink()
    elif kind == "truncated":
        os.truncate(path, source.randrange(len(content) or 1))
    elif kind == "zeroed":
        path.write_bytes(bytes(len(content)))
    elif content:
        place = source.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << source.randrange(8)]) + content[place + 1 :])

    def put_right():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return put_right


def replace(path: pathlib.Path, other: pathlib.Path):
    """Puts another file or directory in the place of one; returns a function that undoes it."""
    aside = path.with_name(path.name + ".aside")
    path.rename(aside)
    shutil.copytree(other, path) if other.is_dir() else shutil.copy(other, path)

    def put_right():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        aside.rename(path)

    return put_right
