"""What TensorBoard shows, and how it is written to the event file of a run."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from kbert.checks import check_directory
from kbert.inspection.board.event_file import EventFile
from kbert.inspection.board.summaries import image, scalar, text


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """A text, a picture or a number, with its tag in TensorBoard; the tag's first part is its group.

    Args:
        content: str, Markdown for the Text tab, in which everything that comes from data is escaped
            (`kbert.inspection.markdown`); a picture, uint8 [height, width, 3]; or a float.
        description: str, Markdown; what the view shows.
    """

    tag: str
    content: str | np.ndarray | float
    description: str = ""


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
