"""The `--output` directory of a verb: one run, resumed if it was interrupted, never overwritten by accident."""

import contextlib
import dataclasses
import datetime
import json
import logging
import math
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbert.checks import check_directory, check_option, differing
from kbert.errors import internal_errors
from kbert.files import explain_full_disk, flush, flush_tree, is_partial, read_json, remove_partial, write_json
from kbert.locks import LOCK, lock_directory, unlock_directory
from kbert.training.made_by import check_inputs, check_outside, identify_inputs, makers
from kbert.versions import versions
from kbert.weights.provenance import run_record
from kbert.weights.step_paths import (
    CHECKPOINTS,
    INPUTS,
    METRICS,
    MODEL,
    SETTINGS,
    checkpoint_paths,
    checkpoint_step,
    is_milestone,
)

if TYPE_CHECKING:
    from kbert.training.hardware import Hardware


_LOGGER = logging.getLogger("kbert")
RECORDS = "records"  # of the text that a run learns from


@dataclasses.dataclass
class RunDirectory:
    """The directory of one run, opened by `open_run`.

    Attributes:
        path: the directory; None: the run writes nothing.
        settings: dict, those of settings.json, with what the run has decided.
        is_resumed: bool, whether the directory contained this run already, unfinished or to be extended.
            `ExactResume` restores its last checkpoint.
        is_finished: bool, whether the run has ended: nothing is left to do, and the directory is not locked.
        is_chief: bool, whether this process writes; of several workers the first does.
        made: list of paths, the directories that `open_run` made: this one and its parents, innermost first.
        recipe, inputs: of a run that writes nothing, as for `open_run`.
    """

    path: pathlib.Path | None
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    is_resumed: bool = False
    is_finished: bool = False
    is_chief: bool = True
    made: list[pathlib.Path] = dataclasses.field(default_factory=list)
    recipe: str | None = None
    inputs: dict[str, Any] = dataclasses.field(default_factory=dict)

    def discard(self) -> None:
        """Deletes what is in the directory of a run that cannot begin, and the directories that `open_run` made.

        Never raises, so that the error which is the reason is not hidden.
        """
        if not self.is_chief:
            return
        with contextlib.suppress(OSError):
            _delete_contents(self.path)
            unlock_directory(self.path)
            for directory in self.made:
                directory.rmdir()

    @contextlib.contextmanager
    def beginning(self) -> Iterator[None]:
        """Leaves nothing of a new run in whose beginning an error occurs, unless records were written by then."""
        try:
            yield
        except Exception:
            if self.path is not None and not self.is_resumed and not any(self.path.glob(f"{RECORDS}/train-*")):
                self.discard()
            raise

    def decide(self, **settings: Any) -> None:
        """Adds to settings.json what the run decides itself; resumed, it finds that in `settings`."""
        self.settings = self.settings | settings
        if self.is_chief and self.path is not None:
            write_json(self.path / SETTINGS, self.settings)

    @internal_errors()
    def finish(
        self,
        metrics: dict,
        save_model: Callable[[pathlib.Path, dict], None] | None = None,
        keep_checkpoint: bool = False,
        keep_every: int | None = None,
        keep_step: int | None = None,
    ) -> None:
        """Writes the model, then metrics.json, which marks the run as finished, then deletes its checkpoints.

        Each step is flushed to disk before the next one: a run that looks finished is finished.

        Args:
            metrics: what JSON can hold.
            save_model: function of a path and of `made_by` that writes the model there; None for runs without one.
            keep_checkpoint: whether the last checkpoint stays, so that the run can be extended.
            keep_every: checkpoints of multiples of these steps stay; None: none of them.
            keep_step: a step whose checkpoint stays, or None.

        Raises:
            FloatingPointError: a metric that is not finite; nothing is written or deleted.
        """
        import keras  # not above: it loads TensorFlow

        if not self.is_chief or self.path is None:
            return
        numbers = [(path, value) for path, value in keras.tree.flatten_with_path(metrics) if isinstance(value, float)]
        if wrong := [f"{'.'.join(map(str, path))} = {value}" for path, value in numbers if not math.isfinite(value)]:
            raise FloatingPointError(
                f"{self.path / METRICS}: expected finite metrics. Received: {', '.join(wrong)}. Nothing was written; "
                "the last checkpoint is kept."
            )
        if save_model is not None:
            save_model(self.path / MODEL, run_record(self.path) | {"metrics": metrics})
        remove_partial(self.path)
        with explain_full_disk(self.path):
            flush_tree(self.path)
        write_json(self.path / METRICS, metrics)
        saved = checkpoint_paths(self.path / CHECKPOINTS)
        kept = set(saved[-1:]) if keep_checkpoint else set()
        for path in saved:
            step = checkpoint_step(path)
            if is_milestone(step, keep_every) or step == keep_step:
                kept.add(path)
            elif path not in kept:
                shutil.rmtree(path, ignore_errors=True)
        if not kept:
            shutil.rmtree(self.path / CHECKPOINTS, ignore_errors=True)
        unlock_directory(self.path)


def open_run(
    output: str | os.PathLike | None,
    settings: dict,
    overwrite: bool | None = False,
    hardware: "Hardware | None" = None,
    *,
    inputs: dict | None = None,
    recipe: str | None = None,
    examples: dict | None = None,
    reuse: bool = False,
    extendable: bool = False,
    choices: dict | None = None,
) -> RunDirectory:
    """Opens a verb's output directory by the rule that all verbs share, and locks it until the run ends.

    A new or empty directory starts a run; inputs.json and settings.json are written first. An unfinished run (no
    metrics.json) with the same settings and inputs is resumed. Anything else in the directory is an error; `overwrite`
    deletes it and says so.

    With `extendable` a run, finished or not, also continues with another number of `steps`. With `reuse` a finished run
    with the same settings and inputs is opened, too (`is_finished`), and `overwrite` keeps it.

    Of several workers the first does all this, and the others wait for it. They end with its error if it has one, and
    each checks that it reads the same inputs.

    Args:
        output: the directory. None: the run writes nothing, and its `path` is None.
        settings: all that defines the run, as JSON can hold it.
        overwrite: None: the verb never overwrites, and no message offers it.
        hardware: `Hardware` of a run that several workers may share; None: this process is alone.
        inputs: argument → path or paths of what the run reads, as for `identify_inputs`.
        recipe: the name of what runs, for the provenance of its model: a public function ("kbert.finetune"), a verb
            that only the command has ("kbert embed"), or the file of a recipe.
        examples: name → hash of the rows that the run reads, from files or memory: training examples, dev sets, texts
            for a teacher. A resumed run must have the same ones.
        reuse: whether a finished run of this kind, which keeps no checkpoints, is wanted, rather than an error.
        extendable: whether the learning rate of a step does not depend on the number of steps.
        choices: further settings, which the run decides later (`RunDirectory.decide`) where they are None. A resumed
            run takes them from settings.json.

    Raises:
        FileExistsError: a finished run, a run with other settings, or other files; the message says what was found,
            what `--overwrite` would delete, and which settings differ.
        NotADirectoryError: `output` is a file, or below one.
        BlockingIOError: another process has locked the directory.
        ValueError: inputs that have changed since the run was started; `overwrite` of a directory with more than a run
            in it (a home directory, a checkout).
    """
    if overwrite is not None:
        check_option("open_run", "overwrite", overwrite, bool)
    inputs = inputs or {}
    examples = examples or {}
    choices = choices or {}
    settings = settings | choices
    if output is None:
        return RunDirectory(None, settings, recipe=recipe, inputs=inputs)
    path = check_directory(output, "`output`")
    settings = json.loads(json.dumps(settings))
    decided = [name for name, value in choices.items() if value is None]
    if hardware is None:
        return _open(path, settings, overwrite, inputs, recipe, examples, reuse, extendable, decided)
    if not hardware.is_chief:
        inputs_now = identify_inputs(inputs)
        hardware.wait_for_all()
        _check_record(path, inputs_now, examples)
        settings = _with_decided(settings, read_json(path / SETTINGS), decided)
        _check_worker(path, settings, inputs)
        is_resumed, is_finished = (path / CHECKPOINTS).exists(), (path / METRICS).exists()
        return RunDirectory(path, settings, is_resumed, is_finished, is_chief=False)
    try:
        run = _open(path, settings, overwrite, inputs, recipe, examples, reuse, extendable, decided)
    except Exception as error:
        hardware.wait_for_all(str(error) or repr(error))  # so that the others end, too
        raise
    hardware.wait_for_all()
    return run


def _open(path, settings, overwrite, inputs, recipe, examples, reuse, extendable, decided) -> RunDirectory:
    """Starts a run, or continues the one in the directory."""
    run = RunDirectory(path, settings, made=[each for each in (path, *path.parents) if not each.exists()])
    path.mkdir(parents=True, exist_ok=True)
    lock_directory(path)
    if any(entry.name != LOCK for entry in path.iterdir()):
        run.made = []  # another process was faster
    try:
        is_occupied = any(entry.name not in (LOCK, INPUTS) and not is_partial(entry.name) for entry in path.iterdir())
        if is_occupied and (not overwrite or (reuse and (path / METRICS).exists())):
            try:
                return _continue(path, settings, overwrite, inputs, examples, reuse, extendable, decided)
            except (OSError, ValueError):
                if not overwrite:
                    raise
        if is_occupied:
            check_outside(path, inputs)
        identified = identify_inputs(inputs)  # before anything is deleted, for its errors
        if is_occupied:
            _empty(path)
        record = {
            "recorded": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "recipe": recipe,
            "versions": versions(),
            "inputs": identified,
            "made_by": makers(inputs),
            "examples": examples,
        }
        write_json(path / INPUTS, record)
        write_json(path / SETTINGS, settings)  # last: a run with settings.json has been started
        with contextlib.suppress(PermissionError):  # others' directory, which may be entered but not read
            flush(path.absolute().parent)
        return run
    except BaseException:
        if run.made:
            run.discard()
        unlock_directory(path)
        raise


def _continue(path, settings, overwrite, inputs, examples, reuse, extendable, decided) -> RunDirectory:
    """The run in a directory: resumed, extended or, with `reuse`, finished. Raises FileExistsError for another run."""
    stored = read_json(path / SETTINGS) if (path / SETTINGS).exists() else None  # None: these are other files
    is_finished = (path / METRICS).exists()
    if stored is not None:
        settings = _with_decided(settings, stored, decided)
    changed = None if stored is None else differing(stored, settings)
    is_extended = extendable and changed == ["steps"]
    is_same = changed == [] and (reuse or not is_finished)
    if not (is_same or is_extended):
        raise FileExistsError(_what_is_there(path, stored, settings, is_finished, overwrite is not None))
    _check_record(path, identify_inputs(inputs), examples)
    if is_extended:
        _extend(path, stored["steps"], settings, is_finished)
    elif is_finished:
        shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)  # `finish` deletes them last, unless it is killed
        unlock_directory(path)
        return RunDirectory(path, settings, is_finished=True)
    return RunDirectory(path, settings, is_resumed=True)


def _extend(path: pathlib.Path, steps: int, settings: dict, is_finished: bool) -> None:
    """Gives the run in a directory, of `steps`, the number of steps of these settings."""
    saved = checkpoint_paths(path / CHECKPOINTS)
    done = checkpoint_step(saved[-1]) if saved else 0
    if settings["steps"] < done or (is_finished and not saved):
        has = f"{done} of which are done" if saved else "and its checkpoint was deleted"
        raise FileExistsError(
            f"{path} holds a run of {steps} steps, {has}: it cannot be given {settings['steps']} steps. Start a new "
            f"run in another --output with --init {path}."
        )
    _LOGGER.info("%s: %s steps instead of %s, %s of which are done.", path, settings["steps"], steps, done)
    (path / METRICS).unlink(missing_ok=True)  # first: beside the new settings it would mark a finished run
    flush(path)
    write_json(path / SETTINGS, settings)


def _with_decided(settings: dict, stored: dict, decided: Sequence[str]) -> dict:
    return settings | {name: stored[name] for name in decided if name in stored}


def _check_record(path: pathlib.Path, inputs_now: dict, examples: dict) -> None:
    """Raises ValueError unless the run in a directory has these inputs and examples; warns of other versions."""
    record = read_json(path / INPUTS)
    since = record["recorded"]
    check_inputs(path, record["inputs"], inputs_now, since)
    if changed := differing(record["examples"], examples):
        raise ValueError(
            f"{path}: a run has the examples it was started with ({since}). Received: other rows in "
            f"{' and '.join(changed)}. Give the same rows, or start a new run with another --output."
        )
    versions_then, versions_now = record["versions"], versions()
    if versions_then != versions_now:
        changed = ", ".join(
            f"{name} {versions_then.get(name)} then, {versions_now.get(name)} now"
            for name in differing(versions_then, versions_now)
        )
        _LOGGER.warning("WARNING: %s was started with other versions (%s): the rest of it may differ.", path, changed)


def _empty(path: pathlib.Path) -> None:
    resolved = path.resolve()
    here = pathlib.Path.cwd().resolve()
    if resolved in (here, *here.parents, pathlib.Path.home().resolve()) or (path / ".git").exists():
        raise ValueError(f"--overwrite never empties a home, a checkout or the current directory. Received: {resolved}")
    _LOGGER.warning("overwrite: deleting from %s %s", path, _describe_contents(path))
    _delete_contents(path)


def _delete_contents(path: pathlib.Path) -> None:
    for entry in path.iterdir():
        if entry.name != LOCK:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _check_worker(path: pathlib.Path, settings: dict, inputs: dict) -> None:
    """Raises ValueError unless this worker has the settings of the first; paths of inputs may differ."""
    first = read_json(path / SETTINGS)
    if names := [name for name in differing(first, settings) if name not in inputs]:
        changes = ", ".join(f"{name}: {first.get(name)!r} there, {settings.get(name)!r} here" for name in names)
        raise ValueError(f"{path}: every worker must have the settings of the first. Received: {changes}")


def _describe_contents(path: pathlib.Path) -> str:
    """How many files a directory holds, their size, and the first names."""
    files = [file for file in path.rglob("*") if file.is_file() and file != path / LOCK]
    size = sum(file.stat().st_size for file in files)
    names = sorted(entry.name + "/" * entry.is_dir() for entry in path.iterdir() if entry.name != LOCK)
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"{len(files)} files, {size / 2**20:.1f} MiB: {shown}"


def _what_is_there(path: pathlib.Path, stored: dict | None, settings: dict, finished: bool, can_overwrite: bool) -> str:
    kind = "a finished" if finished else "an unfinished"
    hint = "Take another output, or overwrite it (--overwrite; in Python overwrite=True), which would delete"
    if not can_overwrite:  # of `ExactResume`, which does not record that it is finished
        kind = "a"
        hint = "Take another output, or delete what is there:"
    if stored is None:
        contents = f"{path} holds other files than a run's"
    elif names := differing(stored, settings):
        changes = ", ".join(f"{name}: {stored.get(name)!r} there, {settings.get(name)!r} now" for name in names)
        contents = f"{path} holds {kind} run with other settings ({changes})"
    else:
        contents = f"{path} holds the finished run of these settings ({METRICS} is written)"
    if finished and (path / MODEL).exists():
        hint = f'To use its model, kbert.load_pretrained("{path}"). To train again, t{hint[1:]}'
    if not finished and _is_trained_model(stored, settings):
        hint = f"To resume it, give the model as it was at the start, or load it again. Otherwise t{hint[1:]}"
    return f"{contents}. {hint} {_describe_contents(path)}."


def _is_trained_model(stored: dict | None, settings: dict) -> bool:
    """Whether only the model differs, and that by the hash of one in memory, which a run trains itself."""
    names = [] if stored is None else differing(stored, settings)
    return names in (["init"], ["source"]) and all(isinstance(of.get(names[0]), dict) for of in (stored, settings))
