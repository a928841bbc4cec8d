"""A run as fine-tuning, taggers on features and pre-training have it: its optimizer, its directory, its logs."""

import importlib.util
import logging
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras

from kbert.inspection.board.tensor_board import TensorBoard
from kbert.optim.adamw import AdamW
from kbert.optim.lamb import Lamb
from kbert.options import Optimization
from kbert.training.run_directory import RunDirectory
from kbert.weights.source import CHECKPOINTS
from kbert.weights.step_checkpoint import write_description

if TYPE_CHECKING:
    from kbert.config import BertConfig
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.settings import ModelSettings

_LOGGER = logging.getLogger("kbert")


def make_optimizer(
    options: Optimization, learning_rate: float | keras.optimizers.schedules.LearningRateSchedule
) -> AdamW:
    """AdamW or LAMB with these options; the learning rate is a number or a schedule."""
    if options.optimizer == "lamb":
        return Lamb(learning_rate, weight_decay=options.weight_decay, layer_decay=options.layer_decay)
    return AdamW(
        learning_rate,
        weight_decay=options.weight_decay,
        bias_correction=options.bias_correction,
        layer_decay=options.layer_decay,
    )


def log_dropout(config: "BertConfig", source: Any, dropout: float | None) -> None:
    """Logs that a model is trained further without dropout, if that is the source's choice and not the caller's."""
    if dropout is None and not config.hidden_dropout and not config.attention_dropout:
        is_loaded = isinstance(source, str | os.PathLike)
        hint = "; `dropout=0.1` (--dropout 0.1) sets the paper's" if is_loaded else ""
        _LOGGER.info("dropout is 0, as in the source%s", hint)


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
        if importlib.util.find_spec("tensorboard") is None:  # TensorFlow brings it along
            _LOGGER.info("TensorBoard is not installed: there will be no logs for it.")
            return
        self._board = TensorBoard(
            self._log_dir, settings=settings, baseline=baseline, batch=batch, profile=profile, wait_for_finish=True
        )
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
