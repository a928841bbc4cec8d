"""Scores on a dev set during training, the weights with the best one, and callbacks that wait for scores."""

import bisect
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import keras
import numpy as np

from kbert.checks import check_option
from kbert.keras_compat import strategy_scope
from kbert.options import Count
from kbert.training.logs import complete_logs, trained_model, updates_done

_LOGGER = logging.getLogger("kbert")
_NEAR = 25  # steps


class DevScoring(keras.callbacks.CallbackList):
    """Scores a model on a dev set, keeps the best weights, and stops when scores no longer improve.

    The scores are added to the logs of the window of `train`, or epoch of `fit`, that they end, with "val_" before
    their names. Give it to `ExactResume(callbacks=...)`, too: a run that was killed then chooses the same weights as an
    undisturbed one, and stops after the same step. The best weights are kept in memory.

    Args:
        evaluate: function without arguments that returns scores as a dict, or an object with ``scores``; it must not
            change the model.
        metric: the score that decides; ties are broken by the lower ``loss``, then by the earlier step.
        steps: the steps after which to evaluate, also 0; None: after each window or epoch.
        keep: "best" or "last": which weights `restore_kept` leaves.
        patience: the number of evaluations without improvement after which training stops; None: never.
        lower_is_better: whether the lowest score is the best, not the highest.
        callbacks: Keras callbacks to which an evaluation is the end of an epoch, such as ``EarlyStopping`` and
            ``ModelCheckpoint``. They get the logs with the scores.

    Attributes:
        records: list of dicts, the step and the scores of each evaluation.
        last: what `evaluate` gave last in this process, with the step; (0, None) before.

    Raises:
        ValueError: a `keep` that is neither of the two, a `patience` that is not a positive integer.

    Example::

        scoring = DevScoring(lambda: task.evaluate(pipeline, dev), "accuracy")
        pipeline.model.fit(data, epochs=3, steps_per_epoch=100, callbacks=[scoring])
        scoring.restore_kept(pipeline.model)
    """

    def __init__(
        self,
        evaluate: Callable[[], Any],
        metric: str,
        steps: Iterable[int] | None = None,
        *,
        keep: Literal["best", "last"] = "best",
        patience: int | None = None,
        lower_is_better: bool = False,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ):
        super().__init__(list(callbacks))
        if keep not in ("best", "last"):
            raise ValueError(f'DevScoring: `keep` must be "best" or "last". Received: {keep!r}')
        if patience is not None:
            patience = check_option("DevScoring", "patience", patience, Count)
        self.evaluate = evaluate
        self.metric = metric
        self.steps = None if steps is None else sorted(steps)
        self.keep = keep
        self.patience = patience
        self.lower_is_better = lower_is_better
        self.records: list[dict] = []
        self.last: tuple[int, Any] = (0, None)
        self._seen = -1  # the last step at which an epoch ended
        self._best: list | None = None  # weights
        self._in_epoch = False

    def get_state(self) -> dict:
        """The scores so far, and the best weights."""
        return {"records": self.records, "best": self._best}

    def set_state(self, state: dict) -> None:
        """Continues from what `get_state` returned."""
        self.records, self._best = state["records"], state["best"]

    def closes(self, step: int) -> bool:
        """Whether an evaluation is due after this step."""
        if self.steps is None:
            return False
        return bisect.bisect_right(self.steps, step) > bisect.bisect_right(self.steps, self._seen)

    @property
    def is_stopped(self) -> bool:
        """Whether the last `patience` evaluations brought no improvement."""
        if self.patience is None or not self.records:
            return False
        scored = [record["step"] for record in self.records]
        return len(scored) - 1 - scored.index(self.best_step()) >= self.patience

    def best_step(self) -> int | None:
        """The step of the best evaluation; None before the first."""
        return max(self.records, key=self._rank)["step"] if self.records else None  # of equal ones the first

    def kept_step(self, last: int) -> int:
        """The step of the weights that `restore_kept` leaves; `last`: that of the weights that the model has."""
        return self.best_step() if self.keep == "best" and self.records else last

    def restore_kept(self, model: keras.Model) -> None:
        """Gives a model the weights of the best evaluation; with `keep` "last" it stays as it is."""
        if self._best is not None:
            with strategy_scope(model):
                for variable, value in zip(model.weights, self._best, strict=True):
                    variable.assign(value)

    def set_model(self, model: keras.Model) -> None:
        super().set_model(trained_model(model))

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._seen = self.params.get("start", updates_done(self.model.optimizer)) or -1
        super().on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not self._in_epoch:
            super().on_epoch_begin(len(self.records), logs)
        self._in_epoch = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        step = complete_logs(logs, self.model)["step"]
        is_due = self.steps is None or self.closes(step)
        self._seen = step
        if not is_due:
            return
        result = self.evaluate()
        self.last = (step, result)
        scores = getattr(result, "scores", result)
        record = {"step": step} | {k: v for k, v in scores.items() if isinstance(v, int | float)}
        is_best = all(self._rank(record) > self._rank(earlier) for earlier in self.records)
        if self.keep == "best" and is_best:
            self._best = [np.array(keras.ops.convert_to_numpy(variable)) for variable in self.model.weights]
        self.records.append(record)
        logs.update({f"val_{k}": float(v) for k, v in record.items() if isinstance(v, float)})  # no counts
        shown = ", ".join(
            f"{name} {record[name]:.4f}" for name in dict.fromkeys(["loss", self.metric]) if name in record
        )
        _LOGGER.info("step %d, dev: %s%s", step, shown, " (best so far)" if is_best and len(self.records) > 1 else "")
        for callback in self.callbacks:  # Keras' own list would give them a sorted copy, in which a step is a float
            callback.on_epoch_end(len(self.records) - 1, logs)
        self._in_epoch = False
        if self.is_stopped:
            _LOGGER.info("step %d: %d evaluations without improvement: stopped early", step, self.patience)
            self.model.stop_training = True

    def _rank(self, record: dict) -> tuple[float, float]:
        score = record[self.metric]
        return -score if self.lower_is_better else score, -(record.get("loss") or 0.0)


def evaluation_steps(total: int, every: Literal["epoch"] | int | None, epoch: float) -> list[int]:
    """The steps after which to evaluate: after each epoch or a number of steps, and always after the last.

    Example::

        evaluation_steps(17, "epoch", 7.6)  # [7, 15, 17]
    """
    if every is None:
        return [total]
    size = max(1.0, epoch) if every == "epoch" else every
    return sorted({*(step for n in range(1, int(total / size) + 1) if (step := int(n * size)) < total), total})


def without_neighbours(evaluations: list[int]) -> list[int]:
    """The evaluations but those just before the last: by less than half the steps to the first, at most 25."""
    *before, last = evaluations
    return [step for step in before if last - step >= min(evaluations[0] / 2, _NEAR)] + [last]
