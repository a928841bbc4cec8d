"""An empty output directory for the quickstart, which makes all its files anew; never deletes other files."""

import pathlib
import shutil

from kbert.training.made_by import METRICS

_OWN = {"corpus.txt", "train.csv", "test.csv", "vocab.txt", "pretrained", "finetuned", "saved_models", "inspection"}
_OWN |= {METRICS, "train_order.csv", "test_order.csv", "order"}


def claim_directory(path, overwrite: bool = False) -> None:
    """Creates an empty directory; with `overwrite` it deletes what the quickstart wrote there earlier.

    Raises:
        FileExistsError: a file, a directory that is not empty (without `overwrite`), or one with other files; the
            message names them.
    """
    path = pathlib.Path(path)
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"--output must be a directory. Received: {path}, which is a file")
    names = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
    if names and not overwrite:
        metrics = path / METRICS
        report = f"Its results:\n{metrics.read_text()}" if metrics.exists() else "That run did not finish.\n"
        raise FileExistsError(f"{path} holds {', '.join(names)}. {report}--overwrite deletes it.")
    others = [name for name in names if name.removeprefix(".").removesuffix(".part") not in _OWN]
    if others:
        raise FileExistsError(f"{path} holds more than this recipe makes ({', '.join(others[:3])}): not deleted.")
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
