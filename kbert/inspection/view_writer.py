"""Views → the event file of a TensorBoard run."""

from collections.abc import Iterable

import numpy as np

from kbert.checks import check_directory
from kbert.inspection.board.event_file import EventFile
from kbert.inspection.board.summaries import image, scalar, text
from kbert.inspection.view import View


class ViewWriter:
    """Writes views to one run of a TensorBoard directory, to one file until it is closed."""

    def __init__(self, log_dir, run):
        self._directory = check_directory(log_dir, "`log_dir`") / run
        self._file = None

    def write(self, step: int, views: Iterable[View]) -> None:
        """Writes views as of a step; they are on the disk when this returns."""
        if self._file is None:
            self._file = EventFile(self._directory, start=step)
        self._file.write(step, [_summary(view) for view in views])
        self._file.flush()

    def close(self) -> None:
        """Closes the file; a later `write` begins another."""
        if self._file is not None:
            self._file.close()
        self._file = None


def _summary(view):
    if isinstance(view.content, str):
        return text(view.tag, view.content, view.description)
    if isinstance(view.content, np.ndarray):
        return image(view.tag, view.content, view.description)
    return scalar(view.tag, view.content, view.description)
