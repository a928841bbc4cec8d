"""The directory of a pre-training, and its logs."""

import logging
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras

from kbert.inspection.board.tensor_board import TensorBoard, run_board
from kbert.training.run_directory import RunDirectory
from kbert.weights.step_checkpoint import write_description
from kbert.weights.step_paths import CHECKPOINTS

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.settings import ModelSettings

_LOGGER = logging.getLogger("kbert")


class Run:
    """The directory of a run, if it has one, and what it shows in TensorBoard."""

    def __init__(self, directory: RunDirectory | None, log_dir: pathlib.Path | None, is_chief: bool = True) -> None:
        self.directory = directory
        self.path = None if directory is None else directory.path
        self.callbacks: list[keras.callbacks.Callback] = []  # those that write the logs; after `show`
        self._log_dir = log_dir
        self._is_chief = is_chief
        self._board: TensorBoard | None = None

    def describe_model(self, model: "BertModel", settings: "ModelSettings", vocabulary: Sequence[str]) -> None:
        """Writes what the checkpoints need beside them to be loaded as models."""
        if self.directory is not None and self.directory.is_chief:
            write_description(self.path / CHECKPOINTS, model, settings, vocabulary)

    def show(
        self,
        settings: Mapping[str, Any],
        baseline: Mapping[str, float],
        batch: Any = None,
        profile: str | None = None,
        examples: Callable[[pathlib.Path], keras.callbacks.Callback] | None = None,
    ) -> None:
        """Logs for TensorBoard; `examples` makes, of the directory of the logs, the callback that shows some."""
        if self._log_dir is None:
            return
        self._board = run_board(self._log_dir, settings=settings, baseline=baseline, batch=batch, profile=profile)
        if self._board is None:
            return
        self.callbacks.append(self._board)
        if examples is not None:
            self.callbacks.append(examples(self._log_dir))

    def finish(
        self,
        metrics: dict[str, Any],
        scores: Mapping[str, Any],
        step: int,
        save_model: Callable[[pathlib.Path, dict], None] | None = None,
        **kept,
    ) -> None:
        """Completes the logs with the scores of a step, and the directory, for `RunDirectory.finish`."""
        if self._board is not None and self._is_chief:
            self._board.finish({**scores, "minutes": metrics["minutes"]}, step)
        if self.directory is not None:
            self.directory.finish(metrics, save_model, **kept)
