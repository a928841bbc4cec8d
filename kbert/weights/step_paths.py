"""Names in a run's directory, and its checkpoints by step. No file is read."""

import pathlib
import re

from kbert.aliases import PathLike

SETTINGS = "settings.json"
INPUTS = "inputs.json"
METRICS = "metrics.json"  # once the run is finished
MODEL = "model"
CHECKPOINTS = "checkpoints"  # the folder of a run's checkpoints
DESCRIPTION = "description"  # beside them: describes the model they are of
_STEP = re.compile(r"step-(\d{10})")
_RUN_AT_STEP = re.compile(r"(.+)@(\d{1,10})")


def checkpoint_paths(directory: PathLike) -> list[pathlib.Path]:
    """The checkpoints in a directory, oldest first; none if there is no directory."""
    return sorted(path for path in pathlib.Path(directory).glob("step-*") if _STEP.fullmatch(path.name))


def checkpoint_name(step: int) -> str:
    return f"step-{step:010d}"


def checkpoint_step(path: PathLike) -> int:
    return int(pathlib.Path(path).name.removeprefix("step-"))


def is_step_checkpoint(path: PathLike) -> bool:
    """Whether a path is a checkpoint of a run, not a model."""
    path = pathlib.Path(path)
    return _STEP.fullmatch(path.name) is not None and path.is_dir()


def find_step_checkpoint(source: PathLike) -> pathlib.Path | None:
    """The checkpoint that a source means: of RUN@STEP, or the last of an unfinished RUN; None: another source.

    A run without checkpoints, or without one of this step, is a FileNotFoundError that names the ones it has.
    """
    path = pathlib.Path(source)
    if path.is_dir():
        # A run that is being extended still has the model of its first end.
        unfinished = (path / SETTINGS).is_file() and not (path / METRICS).exists()
        if (path / MODEL).exists() and not (path / CHECKPOINTS / DESCRIPTION).is_dir():
            unfinished = False  # a recipe's, which has its model when it is trained
        saved = checkpoint_paths(path / CHECKPOINTS)
        if unfinished and not saved and (path / CHECKPOINTS).is_dir() and not (path / MODEL).exists():
            raise FileNotFoundError(f"Expected a model. Received: {path}, an unfinished run without a checkpoint")
        return saved[-1] if unfinished and saved else None
    at_step = _RUN_AT_STEP.fullmatch(str(source))
    if path.exists() or at_step is None or not pathlib.Path(at_step[1]).is_dir():
        return None
    directory = pathlib.Path(at_step[1]) / CHECKPOINTS
    checkpoint = directory / checkpoint_name(int(at_step[2]))
    if not checkpoint.is_dir():
        steps = ", ".join(str(checkpoint_step(path)) for path in checkpoint_paths(directory)) or "none"
        raise FileNotFoundError(
            f"{at_step[1]} has no checkpoint of step {at_step[2]}. It has: {steps} (--keep-every N keeps every Nth "
            "step)"
        )
    return checkpoint


def is_milestone(step: int, keep_every: int | None) -> bool:
    """Whether the checkpoint of a step is kept for good."""
    return bool(keep_every) and step % keep_every == 0
