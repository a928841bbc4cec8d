"""An empty output directory for a program that recreates all its files; never deletes other files."""

import pathlib
import shutil
from collections.abc import Collection

from kbert.training.run_directory import METRICS


def claim_directory(path, own: Collection[str], overwrite: bool = False) -> None:
    """Creates an empty directory; with `overwrite` it deletes what the program wrote there earlier.

    Args:
        path: the directory.
        own: names of the files and directories that the program writes; a directory with others is never deleted.
        overwrite: whether to delete them.

    Raises:
        FileExistsError: a file, a directory that is not empty (without `overwrite`), or one with other files; the
            message names them.

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
