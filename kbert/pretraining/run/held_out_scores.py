"""The scores of a pre-training on its held-out batches."""

from collections.abc import Sequence

import keras

from kbert.models.pretrainer import BertPretrainer
from kbert.pretraining.run.course import Course
from kbert.training.dev_scoring import DevScoring
from kbert.training.logs import readable_logs, updates_done


class HeldOutScores(DevScoring):
    """Scores a model on held-out batches: at checkpoints, phase ends and, for a trained model, before the first step.

    Args:
        trained: the model.
        batches: the held-out batches of each phase. The first score uses the last phase's, to compare with the end.
        course: what the model trains on when.
        every: steps from one checkpoint to the next.
        is_trained: whether the model is scored before the first step.
        callbacks: Keras callbacks that see an evaluation as the end of an epoch.
    """

    def __init__(
        self,
        trained: BertPretrainer,
        batches: Sequence,
        course: Course,
        every: int,
        is_trained: bool,
        callbacks: Sequence[keras.callbacks.Callback],
    ) -> None:
        self.trained = trained
        self.batches = batches
        self.phase: int | None = None
        steps = {*range(every, course.steps, every), *course.ends} | ({0} if is_trained else set())
        super().__init__(self._score, "loss", steps, keep="last", lower_is_better=True, callbacks=callbacks)

    def begin(self, phase: int) -> None:
        """Says which phase begins, of another shape than the one before."""
        if self.phase is not None:  # else Keras would trace one step for both shapes
            self.trained.make_train_function(force=True)
            self.trained.make_test_function(force=True)
        self.phase = phase

    def score(self, phase: int) -> dict[str, float]:
        """Losses and accuracies on the held-out batches of a phase."""
        return readable_logs(self.trained.evaluate(self.batches[phase], return_dict=True, verbose=0), self.trained)

    def best_step(self) -> int | None:
        """The step with the lowest loss; None before the first evaluation of a step."""
        losses = {record["step"]: record["loss"] for record in self.records if record["step"]}
        return min(losses, key=losses.get, default=None)

    def _score(self):
        if updates_done(self.trained.optimizer):
            return self.score(self.phase)
        scores = self.score(-1)
        if len(self.batches) > 1:
            self.trained.make_test_function(force=True)
        return scores
