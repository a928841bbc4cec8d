"""Evaluation on a dev set during training, the weights with the best score, and a caller's callbacks."""

import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import keras
import numpy as np

from kbert.checks import check_path, check_positive
from kbert.files import atomic_file, explain_full_disk, storable
from kbert.keras_compat import strategy_scope
from kbert.training.logs import History

if TYPE_CHECKING:
    from kbert.training.run_state import RunState


_LOGGER = logging.getLogger("kbert")


class DevEvaluation(keras.callbacks.Callback):
    """Scores a model on a dev set after chosen steps, keeps the best weights, and stops when scores no longer improve.

    `fit_steps(evaluation=...)` runs it. Scores are written to ``evaluations.jsonl``, and the best weights to
    ``checkpoints/best-….npz``. The best weights as of every checkpoint are kept, so that a resumed run chooses the same
    weights as an uninterrupted one. Without a directory both are in memory.

    Args:
        evaluate: function without arguments that returns an object with ``scores``, a dict; it must not change the
            model.
        steps: the steps after which to evaluate; the last one is the last step of the run.
        metric: the score that decides; ties are broken by the lower ``loss``, then by the earlier step.
        directory: path of the run, or None.
        keep: "best" or "last": which weights `restore_kept` leaves.
        patience: the number of evaluations without improvement after which training stops; None: never.
        lower_is_better: whether the lowest score is the best, not the highest.

    Attributes:
        records: list of dicts, the step and the scores of each evaluation.
        last: what `evaluate` gave last in this process, with the step; (0, None) before.

    Raises:
        ValueError: a `keep` that is neither of the two, a `patience` that is not a positive integer.
        TypeError: a `directory` that is no path.

    Example::

        evaluation = DevEvaluation(lambda: task.evaluate(pipeline, dev), [100, 200, 300], "accuracy", "runs/reviews")
        fit_steps(model, make_dataset, 300, "runs/reviews", evaluation=evaluation)
        evaluation.restore_kept(model)
    """

    def __init__(
        self,
        evaluate: Callable[[], Any],
        steps: Iterable[int],
        metric: str,
        directory: str | os.PathLike | None = None,
        keep: str = "best",
        patience: int | None = None,
        lower_is_better: bool = False,
    ):
        super().__init__()
        if keep not in ("best", "last"):
            raise ValueError(f'DevEvaluation: `keep` must be "best" or "last". Received: {keep!r}')
        if patience is not None:
            (patience,) = check_positive("DevEvaluation", patience=patience).values()
        self.evaluate = evaluate
        self.steps = frozenset(steps)
        self.metric = metric
        self.directory = None if directory is None else check_path(directory, "DevEvaluation: `directory`")
        self.keep = keep
        self.patience = patience
        self.lower_is_better = lower_is_better
        self.last = (0, None)
        self._weights = {}  # step -> weights, of a run without a directory

    def begin(self, run: "RunState", writes: bool = True) -> None:
        """Restores the scores of a run up to the step of its checkpoint, and drops later ones; `run`: `RunState`."""
        self._run = run
        self._writes = writes
        path = None if self.directory is None else self.directory / "evaluations.jsonl"
        self._history = History(path, run.step, writes)

    @property
    def records(self) -> list[dict]:
        return self._history.records

    @property
    def is_stopped(self) -> bool:
        """Whether the last `patience` evaluations brought no improvement."""
        if self.patience is None or not self.records:
            return False
        scored = [record["step"] for record in self.records]
        return len(scored) - 1 - scored.index(self.best_step()) >= self.patience

    def best_step(self, until: float = math.inf) -> int | None:
        """The step of the best evaluation up to a step; None if there was none."""
        records = [record for record in self.records if record["step"] <= until]
        return max(records, key=self._rank)["step"] if records else None  # of equal ones the first

    @property
    def kept_step(self) -> int:
        """The step of the weights that `restore_kept` leaves; before the first evaluation the last one done."""
        return self.best_step() if self.keep == "best" and self.records else self._run.step

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._evaluate_if_due()  # a checkpoint that an interruption left just before its evaluation

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._evaluate_if_due()

    def pause(self, seconds: float) -> None:
        """Takes time that went into evaluation out of the speed of training."""
        self._run.window.paused += seconds

    def restore_kept(self, model: keras.Model) -> None:
        """Restores the weights of the evaluation that is kept, unless the model already has them."""
        step = self.kept_step
        if step == self._run.step:
            return
        weights = self._read(step)
        with strategy_scope(model):
            for variable, value in zip(model.weights, weights, strict=True):
                variable.assign(value)

    def _rank(self, record: dict) -> tuple[float, float]:
        score = record[self.metric]
        return -score if self.lower_is_better else score, -(record.get("loss") or 0.0)

    def _evaluate_if_due(self) -> None:
        step = self._run.step
        if step not in self.steps or (self.records and self.records[-1]["step"] == step):
            return
        self._run.check(self.model)  # a diverged model is not scored
        start = time.perf_counter()
        result = self.evaluate()
        self.last = (step, result)
        record = {"step": step} | {k: v for k, v in result.scores.items() if isinstance(v, int | float)}
        self.pause(time.perf_counter() - start)
        is_best = all(self._rank(record) > self._rank(earlier) for earlier in self.records)
        if self.keep == "best" and is_best and self._writes:
            self._write(step)  # before its record: a score without its weights would be useless
        self._history.append(record)
        self._prune()
        self._run.scores = {f"val_{k}": float(v) for k, v in record.items() if isinstance(v, float)}  # no counts
        shown = ", ".join(f"{name} {record[name]:.4f}" for name in ("loss", self.metric) if name in record)
        _LOGGER.info("step %d, dev: %s%s", step, shown, " (best so far)" if is_best and len(self.records) > 1 else "")
        if self.is_stopped:
            _LOGGER.info("step %d: %d evaluations without improvement: stopped early", step, self.patience)
            self.model.stop_training = True

    def _path(self, step: int):
        return self.directory / "checkpoints" / f"best-{step:010d}.npz"

    def _write(self, step: int) -> None:
        weights = [keras.ops.convert_to_numpy(variable) for variable in self.model.weights]
        if self.directory is None:
            self._weights[step] = weights
            return
        path = self._path(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        with explain_full_disk(path, sum(value.nbytes for value in weights)), atomic_file(path, "wb") as file:
            np.savez(file, *map(storable, weights))

    def _read(self, step: int) -> list:
        if self.directory is None:
            return self._weights[step]
        with np.load(self._path(step)) as values:  # zip archives carry checksums
            return [values[f"arr_{n}"] for n in range(len(values.files))]

    def _prune(self) -> None:
        """Deletes weights that are neither the best now nor were the best at a checkpoint that may be resumed."""
        checkpoints = () if self._run.checkpoints is None else self._run.checkpoints.steps()
        needed = {self.best_step(), *(self.best_step(step) for step in checkpoints)}
        for step in set(self._weights) - needed:
            del self._weights[step]
        if self.directory is not None and self._writes:
            for path in (self.directory / "checkpoints").glob("best-*.npz"):
                if int(re.search(r"\d+", path.stem)[0]) not in needed:
                    path.unlink()


def evaluation_steps(total: int, every: Literal["epoch"] | int | None, epoch: float) -> list[int]:
    """The steps after which to evaluate: after each epoch or a number of steps, and always after the last.

    Example::

        evaluation_steps(17, "epoch", 7.6)  # [7, 15, 17]
    """
    if every is None:
        return [total]
    size = max(1.0, epoch) if every == "epoch" else every
    return sorted({*(step for n in range(1, int(total / size) + 1) if (step := int(n * size)) < total), total})


class EvaluationEpochs(keras.callbacks.CallbackList):
    """Passes the calls of `fit_steps` on to callbacks that are written for epochs with a validation each.

    Their epoch ends with the window of steps in which an evaluation fell, so that its logs have the scores that
    ``EarlyStopping`` and ``ModelCheckpoint`` watch. Their training begins and ends once, however often `fit_steps`
    calls `fit`.
    """

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        evaluation: DevEvaluation,
        modes: Mapping[str, str],
    ):
        super().__init__(callbacks)
        self.evaluation = evaluation
        self._begun = self._in_epoch = False
        for callback in callbacks:
            score = str(getattr(callback, "monitor", "")).removeprefix("val_")
            if getattr(callback, "mode", None) == "auto" and score in modes:
                callback.mode = modes[score]

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if not self._begun:
            super().on_train_begin(logs)
        self._begun = True

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not self._in_epoch:
            super().on_epoch_begin(len(self.evaluation.records), logs)
        self._in_epoch = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if any(name.startswith("val_") for name in logs):
            super().on_epoch_end(len(self.evaluation.records) - 1, logs)
            self._in_epoch = False

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        records = self.evaluation.records
        last = max(self.evaluation.steps)
        if self.model.stop_training or (records and records[-1]["step"] == last):
            super().on_train_end(logs)
