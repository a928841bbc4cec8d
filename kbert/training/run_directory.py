"""The `--output` directory of a recipe: one run, resumed if it was interrupted, never overwritten by accident."""

import contextlib
import datetime
import json
import logging
import math
import pathlib
import shutil

from kbert.checks import check_bool, check_directory, differing
from kbert.files import explain_full_disk, flush, flush_tree, is_partial, read_json, remove_partial, write_json
from kbert.locks import LOCK, lock_directory, unlock_directory
from kbert.training.checkpoints import is_milestone
from kbert.training.inputs import check_inputs, check_outside, identify_inputs
from kbert.training.made_by import INPUTS, METRICS, MODEL, SETTINGS, makers, run_record
from kbert.training.run_settings import check_resumable, check_worker, describe_contents, extend_run, read_settings
from kbert.versions import versions
from kbert.weights.source import CHECKPOINTS, checkpoint_paths, checkpoint_step

_LOGGER = logging.getLogger("kbert")


class RunDirectory:
    """The directory of one run, opened by `open_run`.

    Attributes:
        resume: bool, whether there is an unfinished run with the same settings and inputs to resume.
        is_chief: bool, whether this process writes; of several workers the first does.
        is_made: bool, whether `open_run` made the directory.
    """

    def __init__(self, path, resume, is_chief=True, is_made=False):
        self.path = pathlib.Path(path)
        self.resume = resume
        self.is_chief = is_chief
        self.is_made = is_made

    def discard(self):
        """Deletes what is in the directory of a run that cannot begin, and the directory if `open_run` made it.

        Never raises, so that the error which is the reason is not hidden.
        """
        if not self.is_chief:
            return
        with contextlib.suppress(OSError):
            _delete_contents(self.path)
            unlock_directory(self.path)
            if self.is_made:
                self.path.rmdir()

    def finish(self, metrics, save_model=None, keep_checkpoint=False, keep_every=None, keep_step=None):
        """Write the model, then metrics.json, which marks the run as finished, then delete its checkpoints.

        Each step is flushed to disk before the next one: a run that looks finished is finished.

        Args:
            metrics: dict that JSON can hold.
            save_model: function of a path and of `made_by` that writes the model there; None for runs without one.
            keep_checkpoint: bool, whether the last checkpoint stays, so that the run can be extended.
            keep_every: int, steps: checkpoints of multiples of it stay; None: none of them.
            keep_step: int, a step whose checkpoint stays, or None.

        Raises:
            FloatingPointError: a metric that is not finite; nothing is written or deleted.
        """
        if not self.is_chief:
            return
        if wrong := list(_not_finite(metrics)):
            raise FloatingPointError(
                f"{self.path / METRICS}: expected finite metrics. Received: {', '.join(wrong)}. Nothing was written; "
                "the last checkpoint is kept."
            )
        if save_model is not None:
            save_model(self.path / MODEL, self.made_by(metrics))
        remove_partial(self.path)
        with explain_full_disk(self.path):
            flush_tree(self.path)
        write_json(self.path / METRICS, metrics)
        saved = checkpoint_paths(self.path / CHECKPOINTS)
        kept = {path for path in saved if is_milestone(checkpoint_step(path), keep_every)}
        kept |= {path for path in saved if checkpoint_step(path) == keep_step}
        kept |= set(saved[-1:]) if keep_checkpoint else set()
        for checkpoint in set(saved) - kept:
            shutil.rmtree(checkpoint, ignore_errors=True)
        if not kept:
            shutil.rmtree(self.path / CHECKPOINTS, ignore_errors=True)
        unlock_directory(self.path)

    def made_by(self, metrics) -> dict:
        """The description of this run for the model's manifest: recipe, settings, inputs, versions and metrics."""
        return run_record(self.path) | {"metrics": metrics}


def open_run(
    output, settings, overwrite=False, hardware=None, *, inputs=None, recipe=None, schedule=None, examples=None
) -> RunDirectory:
    """Open a recipe's output directory by the rule that all recipes share, and lock it until the run ends.

    A new or empty directory starts a run; inputs.json and settings.json are written first. An unfinished run (no
    metrics.json) with the same settings and inputs is resumed. Anything else in the directory is an error; `overwrite`
    deletes it and says so. A run may also change its `steps` (and `warmup_steps`) if the learning rates of the
    completed steps stay the same (`kbert.training.extension`).

    Of several workers the first does all this, and the others wait for it. They end with its error if it has one, and
    each checks that it reads the same inputs.

    Args:
        settings: dict that JSON can hold: all that defines the run.
        hardware: `Hardware` of a run that several workers may share; None: this process is alone.
        inputs: dict, argument → path or paths of what the run reads, as for `identify_inputs`.
        recipe: str, the name of the recipe, for the manifest of the model.
        schedule: function of settings that gives their learning rate schedule; None: `steps` cannot change.
        examples: dict, name → hash of rows in memory that the run learns from; a resumed run must have the same ones.

    Raises:
        FileExistsError: a finished run, a run with other settings, or other files; the message says what was found,
            what `--overwrite` would delete, and which settings differ.
        NotADirectoryError: `output` is a file, or below one.
        BlockingIOError: another process has locked the directory.
        ValueError: inputs that have changed since the run was started; `overwrite` of a directory with more than a run
            in it (a home directory, a checkout).
    """
    check_bool(overwrite, "`overwrite`")
    path = check_directory(output, "`output`")
    settings = json.loads(json.dumps(settings))
    inputs, examples = inputs or {}, examples or {}
    if hardware is None:
        return _open(path, settings, overwrite, inputs, recipe, schedule, examples)
    if not hardware.is_chief:
        inputs_now = identify_inputs(inputs)
        hardware.wait_for_all()
        _check_record(path, inputs_now, examples)
        check_worker(path, settings, inputs)
        return RunDirectory(path, resume=(path / CHECKPOINTS).exists(), is_chief=False)
    try:
        run = _open(path, settings, overwrite, inputs, recipe, schedule, examples)
    except Exception as error:
        hardware.wait_for_all(str(error) or repr(error))  # so that the others end, too
        raise
    hardware.wait_for_all()
    return run


def check_output(output, settings, schedule=None, undecided=()) -> None:
    """Raises the FileExistsError of `open_run` without `overwrite`, before long work; nothing is written.

    Args:
        output, settings, schedule: as of `open_run`.
        undecided: names of settings that that work decides: they may be those of the run in the directory.
    """
    path = check_directory(output, "`output`")
    settings = json.loads(json.dumps(settings))
    if path.exists() and _is_occupied(path):
        stored = read_settings(path) or {}
        check_resumable(path, settings | {name: stored[name] for name in undecided if name in stored}, schedule)


def _is_occupied(path):
    return any(entry.name not in (LOCK, INPUTS) and not is_partial(entry.name) for entry in path.iterdir())


def _open(path, settings, overwrite, inputs, recipe, schedule, examples):
    new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    lock_directory(path)
    new = new and not any(entry.name != LOCK for entry in path.iterdir())
    try:
        run = _open_locked(path, settings, overwrite, inputs, recipe, schedule, examples)
        run.is_made = new
        return run
    except BaseException:
        if new:
            shutil.rmtree(path, ignore_errors=True)
        unlock_directory(path)
        raise


def _open_locked(path, settings, overwrite, inputs, recipe, schedule, examples):
    if _is_occupied(path):
        if not overwrite:
            extended = check_resumable(path, settings, schedule)
            _check_record(path, identify_inputs(inputs), examples)
            if extended:
                extend_run(path, settings, schedule)
            return RunDirectory(path, resume=True)
        check_outside(path, inputs)
        _empty(path)
    record = {
        "recorded": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "recipe": recipe,
        "versions": versions(),
        "inputs": identify_inputs(inputs),
        "made_by": makers(inputs),
        "examples": examples,
    }
    write_json(path / INPUTS, record)
    write_json(path / SETTINGS, settings)  # last: a run with settings.json has been started
    flush(path.absolute().parent)
    return RunDirectory(path, resume=False)


def _check_record(path, inputs_now, examples):
    try:
        record = read_json(path / INPUTS)
        versions_then, since = record["versions"], record["recorded"]
        check_inputs(path, record["inputs"], inputs_now, since)
        if changed := differing(record["examples"], examples):
            raise ValueError(
                f"{path}: a run resumes with the examples it was started with ({since}). Received: other rows in "
                f"{' and '.join(changed)}. Give the same rows, or start a new run with another --output."
            )
    except (AttributeError, KeyError, TypeError, FileNotFoundError) as error:
        raise ValueError(
            f"{path / INPUTS} is missing or damaged ({error!r}): it records the inputs that the run was started with, "
            "without which it cannot resume. Restore it, or start another run with another --output."
        ) from error
    if versions_then != (versions_now := versions()):
        changed = ", ".join(
            f"{name} {versions_then.get(name)} then, {versions_now.get(name)} now"
            for name in differing(versions_then, versions_now)
        )
        _LOGGER.warning("WARNING: %s was started with other versions (%s): the rest of it may differ.", path, changed)


def _empty(path):
    resolved = path.resolve()
    here = pathlib.Path.cwd().resolve()
    if resolved in (here, *here.parents, pathlib.Path.home().resolve()) or (path / ".git").exists():
        raise ValueError(f"--overwrite never empties a home, a checkout or the current directory. Received: {resolved}")
    _LOGGER.warning("overwrite: deleting from %s %s", path, describe_contents(path))
    _delete_contents(path)


def _delete_contents(path):
    for entry in path.iterdir():
        if entry.name != LOCK:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _not_finite(value, name=""):
    """ "name = value" of every number in nested dicts and lists that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{name} = {value}"
    elif isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _not_finite(inner, f"{name}.{key}" if name else str(key))
