"""The scores of a fine-tuning on its dev sets."""

import functools
from collections.abc import Sequence
from typing import Any, Literal

import keras

from kbert.errors import internal_errors
from kbert.finetuning.example_sets import ExampleSets
from kbert.pipelines.pipeline import Pipeline
from kbert.tasks.task import Evaluation, Task
from kbert.training.dev_scoring import DevScoring, evaluation_steps, without_neighbours
from kbert.training.hardware import Hardware
from kbert.weights.build_pipeline import build_pipeline


class DevScores(DevScoring):
    """Scores a pipeline on the dev set while it trains, and on all dev sets with the weights that are kept.

    Args:
        pipeline: what is trained.
        task: its task.
        sets: the examples, with `dev`.
        hardware: whether all batches must have one shape.
        steps: those of the run.
        rows: those of an epoch.
        batch_size: rows of a step, and of a forward pass.
        every: when to score, as `evaluate_every` of `kbert.finetune`.
        keep, patience: see `DevScoring`.
        callbacks: Keras callbacks that see an evaluation as the end of an epoch.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        task: Task,
        sets: ExampleSets,
        hardware: Hardware,
        steps: int,
        rows: int,
        batch_size: int,
        every: Literal["epoch"] | int | None,
        keep: Literal["best", "last"],
        patience: int | None,
        callbacks: Sequence[keras.callbacks.Callback],
    ) -> None:
        self.task = task
        self.sets = sets
        self._score = functools.partial(task.evaluate, batch_size=batch_size, static=hardware.name == "tpu")
        for callback in callbacks:
            watched = str(getattr(callback, "monitor", "")).removeprefix("val_")
            if getattr(callback, "mode", None) == "auto" and watched in task.metrics:
                callback.mode = "min" if watched in task.lower_is_better else "max"
        super().__init__(
            functools.partial(self._score, pipeline, sets.dev[""], choose=True),
            task.metrics[0],
            without_neighbours(evaluation_steps(steps, every, rows / batch_size)),
            keep=keep,
            patience=patience,
            lower_is_better=task.metrics[0] in task.lower_is_better,
            callbacks=callbacks,
        )

    @internal_errors()
    def score_kept(self, pipeline: Pipeline, last: int) -> tuple[Pipeline, Evaluation, dict[str, Any]]:
        """Restores the weights that are kept, and scores them on all dev sets; the model has those of step `last`.

        Returns:
            (the pipeline with the settings that were chosen on dev, the evaluation, its part of metrics.json).
        """
        self.restore_kept(pipeline.model)
        step = self.kept_step(last)
        scored, result = self.last
        if result is None or scored != step:
            result = self.evaluate()
        if result.settings:
            options = pipeline.options() | result.settings
            pipeline = build_pipeline(pipeline.model, pipeline.tokenizer, **options)
        scores, constant = dict(result.scores), self.constant_answer()
        for suffix in filter(None, self.sets.dev):
            more, of_constant = self._score(pipeline, self.sets.dev[suffix]).scores, self.constant_answer(suffix)
            scores |= {name + suffix: more[name] for name in self.task.metrics}
            constant |= {name + suffix: of_constant[name] for name in self.task.metrics}
        metrics = {"dev": scores, **result.settings, "constant_answer": constant}
        return pipeline, result, metrics | {"evaluations": self.records, "kept_step": step}

    def constant_answer(self, suffix: str = "") -> dict[str, float]:
        """The scores on a dev set of the most frequent answer in the training examples."""
        return dict(self.task.baseline_scores(self.sets.train.baseline(), self.sets.dev[suffix]))
