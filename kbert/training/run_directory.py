"""What `--output` of a recipe is: one run, resumed if it was broken off, never overwritten by accident."""

import json
import pathlib
import shutil

from kbert.files import is_partial, read_json, remove_partial, write_json

SETTINGS, METRICS, MODEL, CHECKPOINTS = "settings.json", "metrics.json", "model", "checkpoints"


class RunDirectory:
    """The directory of one run, opened by `open_run`.

    Attributes:
        path: `pathlib.Path`.
        resume: bool, whether an unfinished run of the same settings is there to go on with.
        is_chief: bool, whether this process writes; of several workers the first does.
    """

    def __init__(self, path, resume, is_chief=True):
        self.path = pathlib.Path(path)
        self.resume = resume
        self.is_chief = is_chief

    def finish(self, metrics, save_model=None):
        """Write what the run ends with: the model, then metrics.json, which marks it as finished, and no checkpoints.

        Args:
            metrics: dict that JSON can hold.
            save_model: function of a path that writes the model there; None for runs without one.
        """
        if not self.is_chief:
            return
        if save_model is not None:
            save_model(self.path / MODEL)
            remove_partial(self.path)
        write_json(self.path / METRICS, metrics)
        shutil.rmtree(self.path / CHECKPOINTS, ignore_errors=True)


def open_run(output, settings, overwrite=False, hardware=None) -> RunDirectory:
    """Open a recipe's output directory by the rule that all recipes share.

    A new or empty directory starts a run; settings.json is written first. An unfinished run (no metrics.json) with the
    same settings is resumed. Anything else there is an error, unless `overwrite`, which deletes it and says so. Of
    several workers the first does all this, and the others wait for it.

    Args:
        output: path.
        settings: dict that JSON can hold: all that defines the run.
        overwrite: bool.
        hardware: `Hardware` of a run that several workers may share; None: this process is alone.

    Returns:
        `RunDirectory`.

    Raises:
        FileExistsError: a finished run, a run of other settings, or other files; the message says what is there, what
            `--overwrite` would delete, and for other settings which ones differ.
        ValueError: `overwrite` of a directory that holds more than a run (a home, a checkout).

    Example::

        run = open_run("runs/tiny", {"size": "tiny", "seed": 0})
        run.finish({"loss": 1.9})
    """
    path = pathlib.Path(output)
    if hardware is not None and not hardware.is_chief:
        hardware.wait_for_all()
        return RunDirectory(path, resume=(path / CHECKPOINTS).exists(), is_chief=False)
    run = _open(path, json.loads(json.dumps(settings)), overwrite)
    if hardware is not None:
        hardware.wait_for_all()
    return run


def _open(path, settings, overwrite):
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"Expected a directory as output. Received: {path}, which is a file.")
    if path.is_dir() and any(not is_partial(entry.name) for entry in path.iterdir()):
        found = _read_settings(path)
        finished = (path / METRICS).exists()
        if found == settings and not finished and not overwrite:
            return RunDirectory(path, resume=True)
        if not overwrite:
            raise FileExistsError(_what_is_there(path, found, settings, finished))
        _empty(path)
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / SETTINGS, settings)
    return RunDirectory(path, resume=False)


def _read_settings(path):
    try:
        return read_json(path / SETTINGS)
    except (OSError, ValueError):
        return None


def _what_is_there(path, found, settings, finished):
    if found is None:
        there = f"{path} holds other files than a run's"
    elif found != settings:
        differing = sorted(key for key in found.keys() | settings.keys() if found.get(key) != settings.get(key))
        changes = ", ".join(f"{key}: {found.get(key)!r} there, {settings.get(key)!r} now" for key in differing)
        there = f"{path} holds {'a finished' if finished else 'an unfinished'} run with other settings ({changes})"
    else:
        there = f"{path} holds the finished run of these settings ({METRICS} is written)"
    return f"{there}. Take another --output, or --overwrite, which would delete {_contents(path)}."


def _contents(path):
    files = [file for file in path.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    names = sorted(entry.name + "/" * entry.is_dir() for entry in path.iterdir())
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"{len(files)} files, {size / 2**20:.1f} MiB: {shown}"


def _empty(path):
    resolved = path.resolve()
    here = pathlib.Path.cwd().resolve()
    if resolved in (here, *here.parents, pathlib.Path.home().resolve()) or (path / ".git").exists():
        raise ValueError(f"--overwrite deletes what a run left, nothing more. Received: {resolved}")
    print(f"--overwrite: deleting from {path} {_contents(path)}", flush=True)
    for entry in path.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
