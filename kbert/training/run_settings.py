"""The settings of the run in a directory: whether another call may resume it, or give it more steps."""

import logging

from kbert.checks import differing
from kbert.files import flush, read_json, write_json
from kbert.locks import LOCK
from kbert.training.extension import check_extension
from kbert.training.made_by import METRICS, MODEL, SETTINGS
from kbert.weights.source import CHECKPOINTS, checkpoint_paths, checkpoint_step

_LOGGER = logging.getLogger("kbert")


def read_settings(path) -> dict | None:
    """The settings of the run in a directory; None if there are none: the directory is not a run."""
    if not (path / SETTINGS).exists():
        return None
    try:
        return read_json(path / SETTINGS)
    except ValueError as error:
        raise FileExistsError(
            f"{path} holds a run whose settings cannot be read: {error} Put {SETTINGS} back, or start another run with "
            "another --output."
        ) from error


def check_worker(path, settings, inputs) -> None:
    """Raises ValueError unless this worker has the settings of the first; paths of inputs may differ."""
    first = read_settings(path)
    if names := [name for name in differing(first, settings) if name not in inputs]:
        changes = ", ".join(f"{name}: {first.get(name)!r} there, {settings.get(name)!r} here" for name in names)
        raise ValueError(f"{path}: every worker must have the settings of the first. Received: {changes}")


def check_resumable(path, settings, schedule) -> bool:
    """Whether the run in the directory would be extended; FileExistsError unless it can be resumed or extended."""
    stored, finished = read_settings(path), (path / METRICS).exists()
    names = None if stored is None else differing(stored, settings)
    extended = schedule is not None and names is not None and _is_extension(names)
    if not extended and (names is None or names or finished):
        raise FileExistsError(_what_is_there(path, stored, settings, finished))
    return extended


def extend_run(path, settings, schedule) -> None:
    """Gives the run in the directory the number of steps of these settings."""
    stored, finished = read_settings(path), (path / METRICS).exists()
    saved = checkpoint_paths(path / CHECKPOINTS)
    done = checkpoint_step(saved[-1]) if saved else stored["steps"] if finished else 0
    _check_extension(path, stored, settings, schedule, done)
    if finished and not saved:
        raise FileExistsError(
            f"{path} holds a finished run of {stored['steps']} steps, whose checkpoint was deleted: it cannot be given "
            f"{settings['steps']} steps. Start a new run in another --output with --init {path}."
        )
    _LOGGER.info("%s: %s steps instead of %s, %s of which are done.", path, settings["steps"], stored["steps"], done)
    (path / METRICS).unlink(missing_ok=True)  # first: a run is finished with the settings it is finished with
    flush(path)
    write_json(path / SETTINGS, settings)


def describe_contents(path) -> str:
    """How many files a directory holds, their size, and the first names."""
    files = [file for file in path.rglob("*") if file.is_file() and file != path / LOCK]
    size = sum(file.stat().st_size for file in files)
    names = sorted(entry.name + "/" * entry.is_dir() for entry in path.iterdir() if entry.name != LOCK)
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"{len(files)} files, {size / 2**20:.1f} MiB: {shown}"


def _is_extension(names):
    """Whether the settings that differ are only those of a run's length; the warm-up is by default a share of it."""
    return "steps" in names and set(names) <= {"steps", "warmup_steps"}


def _check_extension(path, stored, settings, schedule, done):
    def check(settings):
        check_extension(path, schedule(stored), schedule(settings), done, stored["steps"], settings["steps"])

    try:
        check(settings)
    except FileExistsError as error:
        warmup = stored.get("warmup_steps")  # by default a share of the steps, so that it changes with them
        if warmup == settings.get("warmup_steps") or warmup is None or warmup > settings["steps"]:
            raise
        check(settings | {"warmup_steps": warmup})
        raise FileExistsError(
            f"{path} was started with {warmup} steps of warm-up, and {settings['steps']} steps would have "
            f"{settings['warmup_steps']}. Give --warmup-steps {warmup}: with that the run can be extended."
        ) from error


def _what_is_there(path, stored, settings, finished):
    if stored is None:
        contents = f"{path} holds other files than a run's"
    elif names := differing(stored, settings):
        changes = ", ".join(f"{name}: {stored.get(name)!r} there, {settings.get(name)!r} now" for name in names)
        contents = f"{path} holds {'a finished' if finished else 'an unfinished'} run with other settings ({changes})"
    else:
        contents = f"{path} holds the finished run of these settings ({METRICS} is written)"
    hint = "Take another output, or overwrite it (--overwrite; in Python overwrite=True), which would delete"
    if finished and (path / MODEL).exists():
        hint = f'To use its model, kbert.load_pretrained("{path}"). To train again, t{hint[1:]}'
    if not finished and _is_trained_model(stored, settings):
        hint = f"To resume it, give the model as it was at the start, or load it again. Otherwise t{hint[1:]}"
    return f"{contents}. {hint} {describe_contents(path)}."


def _is_trained_model(stored, settings):
    """Whether only the model differs, and that by the hash of one in memory, which a run trains itself."""
    names = [] if stored is None else differing(stored, settings)
    if names not in (["init"], ["source"]):
        return False
    return isinstance(stored.get(names[0]), dict) and isinstance(settings.get(names[0]), dict)
