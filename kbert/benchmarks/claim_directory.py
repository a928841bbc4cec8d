"""A directory for what a program makes anew each time: never somebody else's files."""

import pathlib
import shutil
from collections.abc import Collection

from kbert.training.run_directory import METRICS


def claim_directory(path, own: Collection[str], overwrite: bool = False) -> None:
    """Makes an empty directory; what an earlier call's program left there is deleted if the caller says so.

    Args:
        path: of the directory.
        own: names of the files and directories that the program makes; a directory with others is never deleted.
        overwrite: whether to delete them.

    Raises:
        FileExistsError: a file, or a directory that holds anything (without `overwrite`) or other things; the message
            says what.

    Example::

        claim_directory("runs/quickstart", {"corpus.txt", "metrics.json"}, overwrite=True)
    """
    path = pathlib.Path(path)
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"--output must be a directory. Received: {path}, which is a file")
    names = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
    if names and not overwrite:
        metrics = path / METRICS
        report = f"Its results:\n{metrics.read_text()}" if metrics.exists() else "That run did not finish.\n"
        raise FileExistsError(f"{path} holds {', '.join(names)}. {report}--overwrite deletes it.")
    others = [name for name in names if name.removeprefix(".").removesuffix(".part") not in own]
    if others:
        raise FileExistsError(f"{path} holds more than this recipe makes ({', '.join(others[:3])}): not deleted.")
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
