"""Exact resume of a plain `model.fit`, as a Keras callback."""

import pathlib

import keras

from kbert.checks import check_directory
from kbert.training.checkpoints import Checkpoints
from kbert.training.training_state import is_chief
from kbert.weights.source import CHECKPOINTS


class ExactResume(keras.callbacks.Callback):
    """Checkpoints at the end of each epoch of `model.fit`; the same program, started again, goes on from the last one.

    Weights, optimizer and the state of dropout are restored when it is made. Where batch n of the dataset depends only
    on n, a run that was killed and started again ends on a CPU with bit for bit the same weights. A callback reads as
    the rest of a Keras program does; `fit_steps` is the function for runs that need more: checkpoints on signals,
    phases, a time budget, evaluation on a dev set.

    Args:
        directory: receives ``checkpoints/``.
        model: compiled, built under its strategy's scope.
        steps_per_epoch: that of `fit`.
        keep: how many checkpoints are kept.

    Attributes:
        step: the number of updates so far: the dataset begins with this batch.
        epoch: `initial_epoch` of `fit`.

    Raises:
        NotADirectoryError: `directory` is a file.
        ValueError: the checkpoint is of another model, or in the middle of an epoch of `steps_per_epoch`.

    Example::

        resume = ExactResume("runs/tiny", model, steps_per_epoch=100)
        model.fit(
            pretraining_dataset("records", tokenizer, batch_size=32, start_step=resume.step),
            steps_per_epoch=100,
            epochs=50,
            initial_epoch=resume.epoch,
            callbacks=[resume],
        )
    """

    def __init__(self, directory, model: keras.Model, steps_per_epoch: int, keep: int = 2):
        super().__init__()
        place = check_directory(directory, "ExactResume: `directory`")
        self.steps_per_epoch = steps_per_epoch
        self._checkpoints = Checkpoints(pathlib.Path(place) / CHECKPOINTS, model, keep)
        self.step = self._checkpoints.restore()
        self.epoch, rest = divmod(self.step, steps_per_epoch)
        if rest:
            raise ValueError(
                f"ExactResume: the checkpoint of step {self.step} in {place} is not at the end of an epoch. Expected "
                f"the `steps_per_epoch` of the run. Received: {steps_per_epoch}"
            )

    def on_epoch_end(self, epoch, logs=None):
        self.step = (epoch + 1) * self.steps_per_epoch
        if is_chief(self.model):
            self._checkpoints.save(self.step)
