"""What a model gets right and wrong on held-out examples, in TensorBoard while it is fine-tuned."""

from collections.abc import Callable
from typing import Any

import keras

from kbert.aliases import PathLike
from kbert.checks import check_directory, check_positive
from kbert.inspection.board.event_file import EventFile
from kbert.training.dev_scoring import DevScoring
from kbert.training.logs import is_chief, updates_done


class DevExamples(keras.callbacks.Callback):
    """Writes tables, pictures and examples of each evaluation for TensorBoard, to the run `examples`.

    The task determines what is shown (`kbert.tasks.Evaluation.show`): a classifier's confusion matrix and its most
    confident errors, questions with answer and gold answer, sentences with entities. Figures cover all evaluated
    examples. Each table shows ten of them. `kbert.finetune` adds this callback if there are logs and a dev set.

    Args:
        source: the `DevScoring` before this callback in the list: its results are shown, and nothing is predicted
            again. Or a function without arguments that returns a `kbert.tasks.Evaluation`.
        log_dir: the directory of the TensorBoard logs.
        every: epochs from one call of a function to the next.

    Raises:
        TypeError: a `source` that is neither, a `log_dir` that is no path.
        ValueError: `every` is not a positive integer.

    Example::

        few = dev.take(range(500))
        shown = DevExamples(lambda: task.evaluate(pipeline, few), "runs/reviews/logs")
        pipeline.model.fit(data, epochs=3, steps_per_epoch=100, callbacks=[shown])
    """

    def __init__(self, source: DevScoring | Callable[[], Any], log_dir: PathLike, every: int = 1) -> None:
        super().__init__()
        if not isinstance(source, DevScoring) and not callable(source):
            raise TypeError(
                "DevExamples: expected `source` as a DevScoring or a function that returns an Evaluation. "
                f"Received: {source!r}"
            )
        self.source = source
        self.every = check_positive("DevExamples", every=every)["every"]
        self._file = EventFile(check_directory(log_dir, "`log_dir`") / "examples")
        self._shown = 0

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if isinstance(self.source, DevScoring):
            if self.source.last[0] != self._shown:
                self._show(*self.source.last)
        elif (epoch + 1) % self.every == 0:
            step = logs["step"] if logs and "step" in logs else updates_done(self.model.optimizer)
            self._show(step, self.source())

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._file.close()

    def _show(self, step, result):
        self._shown = step
        if is_chief(self.model) and result.show is not None:
            self._file.write(step, [view.summary() for view in result.show()])
            self._file.flush()
