"""Views → the event file of a TensorBoard run."""

import pathlib
from collections.abc import Iterable

import numpy as np

from kbert.files import explain_full_disk
from kbert.inspection.view import View


class ViewWriter:
    """Writes views to one run of a TensorBoard directory, to one file until it is closed.

    Args:
        log_dir: path.
        run: str, the name of the run, a directory in `log_dir`.

    Example::

        writer = ViewWriter("runs/reviews/logs", "examples")
        writer.write(100, [View("note", "**after** the first epoch")])
        writer.close()
    """

    def __init__(self, log_dir, run):
        self.log_dir, self.run = pathlib.Path(log_dir), run
        self._writer = None

    def write(self, step: int, views: Iterable[View]) -> None:
        """Writes views as of a step; they are on the disk when this returns.

        Raises:
            FullDisk, WriteFault: as `kbert.files.explain_full_disk`.
        """
        import tensorflow as tf

        with explain_full_disk(self.log_dir):
            if self._writer is None:  # one file a run: TensorBoard reads them in the order of their names
                self._writer = tf.summary.create_file_writer(str(self.log_dir / self.run))
            with self._writer.as_default(step=step):
                for view in views:
                    if isinstance(view.content, str):
                        tf.summary.text(view.tag, view.content, description=view.description or None)
                    elif isinstance(view.content, np.ndarray):
                        tf.summary.image(view.tag, view.content[np.newaxis], description=view.description or None)
                    else:
                        tf.summary.scalar(view.tag, view.content, description=view.description or None)
            self._writer.flush()

    def close(self) -> None:
        """Closes the file; a later `write` begins another."""
        if self._writer is not None:
            with explain_full_disk(self.log_dir):
                self._writer.close()
        self._writer = None
