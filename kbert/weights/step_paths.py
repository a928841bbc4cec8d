"""Where a training run keeps its checkpoints, and which one a source means."""

import pathlib
import re

CHECKPOINTS = "checkpoints"
_NAME = re.compile(r"step-(\d{10})")
_AT_STEP = re.compile(r"(.+)@(\d{1,10})")


def checkpoint_paths(directory) -> list[pathlib.Path]:
    """The checkpoints in a directory, oldest first; none if there is no directory."""
    return sorted(path for path in pathlib.Path(directory).glob("step-*") if _NAME.fullmatch(path.name))


def checkpoint_name(step: int) -> str:
    return f"step-{step:010d}"


def checkpoint_step(path) -> int:
    return int(pathlib.Path(path).name.removeprefix("step-"))


def is_step_checkpoint(path) -> bool:
    """Whether a path is a checkpoint of a run, not a model."""
    path = pathlib.Path(path)
    return _NAME.fullmatch(path.name) is not None and path.is_dir()


def find_step_checkpoint(source) -> pathlib.Path | None:
    """The checkpoint that a source means: of RUN@STEP, or the last of an unfinished RUN; None: another source.

    A run without checkpoints, or without one of this step, is a FileNotFoundError that names the ones it has.
    """
    path, found = pathlib.Path(source), _AT_STEP.fullmatch(str(source))
    if path.is_dir():
        # A run that is being extended still has the model of its first end.
        unfinished = (path / "settings.json").is_file() and not (path / "metrics.json").exists()
        saved = checkpoint_paths(path / CHECKPOINTS)
        if unfinished and not saved and (path / CHECKPOINTS).is_dir() and not (path / "model").exists():
            raise FileNotFoundError(f"Expected a model. Received: {path}, an unfinished run without a checkpoint")
        return saved[-1] if unfinished and saved else None
    if path.exists() or found is None or not pathlib.Path(found[1]).is_dir():
        return None
    directory = pathlib.Path(found[1]) / CHECKPOINTS
    checkpoint = directory / checkpoint_name(int(found[2]))
    if not checkpoint.is_dir():
        steps = ", ".join(str(checkpoint_step(path)) for path in checkpoint_paths(directory)) or "none"
        raise FileNotFoundError(
            f"{found[1]} has no checkpoint of step {found[2]}. It has: {steps} (--keep-every N keeps every Nth step)"
        )
    return checkpoint
