"""What a model gets right and wrong on held-out examples, in TensorBoard while it is fine-tuned."""

from typing import Any

import keras

from kbert.aliases import PathLike
from kbert.checks import check_directory
from kbert.inspection.board.event_file import EventFile
from kbert.training.dev_scoring import DevScoring
from kbert.training.logs import is_chief


class DevExamples(keras.callbacks.Callback):
    """Writes tables, pictures and examples of each evaluation for TensorBoard, to the run `examples`.

    The task determines what is shown (`kbert.tasks.Evaluation.show`): a classifier's confusion matrix and its most
    confident errors, questions with answer and gold answer, sentences with entities. Figures cover all evaluated
    examples. Each table shows ten of them. `kbert.finetune` adds this callback if there are logs and a dev set.

    Args:
        scoring: the `DevScoring` before this callback in the list. Its results are shown, and nothing is predicted
            again. Its `evaluate` must return a `kbert.tasks.Evaluation`.
        log_dir: the directory of the TensorBoard logs.

    Raises:
        TypeError: `scoring` is not a DevScoring, or `log_dir` is not a path.

    Example::

        scoring = kbert.training.DevScoring(lambda: task.evaluate(pipeline, dev), "accuracy")
        shown = DevExamples(scoring, "runs/reviews/logs")
        pipeline.model.fit(data, epochs=3, steps_per_epoch=100, callbacks=[scoring, shown])
    """

    def __init__(self, scoring: DevScoring, log_dir: PathLike) -> None:
        super().__init__()
        if not isinstance(scoring, DevScoring):
            raise TypeError(f"DevExamples: `scoring` must be a DevScoring. Received: {scoring!r}")
        self.scoring = scoring
        self._file = EventFile(check_directory(log_dir, "`log_dir`") / "examples")
        self._shown = 0

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        step, result = self.scoring.last
        if step == self._shown:
            return
        self._shown = step
        if is_chief(self.model) and result.show is not None:
            self._file.write(step, [view.summary() for view in result.show()])
            self._file.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._file.close()
