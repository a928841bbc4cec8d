"""The scores of a fine-tuning: its model's on the dev sets, and those of a constant answer."""

from typing import Any

from kbert.tasks.task import Evaluation


class DevScores:
    """Scores the model of a fine-tuning on its dev set, and at the end on further ones."""

    def __init__(self, task, pipeline, train, dev, more_dev, batch_size, static):
        self._task, self._pipeline, self._train = task, pipeline, train
        self._dev, self._more_dev = dev, more_dev
        self._options = {"batch_size": batch_size, "static": static}
        self._constant = None

    def evaluate(self) -> Evaluation:
        """The evaluation on the dev set, which also chooses settings such as the null threshold."""
        return self._task.evaluate(self._pipeline, self._dev, choose=True, **self._options)

    def constant_answer(self) -> dict[str, float]:
        """The scores on the dev set of the training examples' most frequent answer."""
        if self._constant is None:
            self._constant = self._task.baseline_scores(self._train.baseline(), self._dev)
        return self._constant

    def of_kept_weights(self, evaluation) -> tuple[Evaluation, dict[str, Any]]:
        """Restores and evaluates the weights that are kept; returns the evaluation and its part of metrics.json."""
        evaluation.restore_kept(self._pipeline.model)
        done, result = evaluation.last
        if result is None or done != evaluation.kept_step:
            result = self.evaluate()
        scores, constant, names = dict(result.scores), dict(self.constant_answer()), self._task.metrics
        for suffix, examples in self._more_dev.items():
            more = self._task.evaluate(self._pipeline, examples, choose=False, **self._options).scores
            also = self._task.baseline_scores(self._train.baseline(), examples)
            scores |= {name + suffix: more[name] for name in names}
            constant |= {name + suffix: also[name] for name in names}
        return result, {
            "dev": scores,
            **result.settings,
            "constant_answer": constant,
            "evaluations": evaluation.records,
            "kept_step": evaluation.kept_step,
        }
