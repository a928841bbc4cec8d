"""What a task is to fine-tuning and evaluation: how its examples are read, learnt and scored."""

import abc
import dataclasses
import os
from collections.abc import Callable
from typing import Any, ClassVar, Self

from kbert.tasks.examples import Examples


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """What a fine-tuning draws its batches from.

    Attributes:
        rows: examples of an epoch, by which steps are counted.
        windows: rows of batches there are, where long texts are cut into windows; else as `rows`.
        real_tokens: tokens of a row of a batch that are not padding, on average.
        make_dataset: function (start_step) of the endless tf.data.Dataset that begins with that batch.
    """

    rows: int
    windows: int
    real_tokens: float
    make_dataset: Callable[[int], Any]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a model answers to examples, and what that scores.

    Attributes:
        scores: dict that JSON can hold, the official metrics among it.
        settings: fields of `ModelSettings` that were chosen on these examples, such as the null threshold.
        predictions: the answers: probabilities [n, N], scores [n], tags of every sentence, or answers by id.
        write: function of a directory that writes the official prediction files there; None where there are none.
    """

    scores: dict[str, Any]
    predictions: Any
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    write: Callable[[Any], None] | None = None


class Task(abc.ABC):
    """How the examples of one of kbert's tasks are read, learnt and scored; base of a frozen dataclass.

    The fields of a subclass are what a user chooses: columns, formats, lengths.

    Attributes:
        name: the task's word, that of `kbert.load_pretrained(task=...)` and of its folder in kbert/tasks/.
        metrics: names of its official metrics, all of them better when higher; the first chooses the best epoch.

    Example::

        task = kbert.tasks.Classification(text="review", label="stars")
        train, dev = task.read("reviews.csv").split(0.1)
        run = kbert.finetune("google-bert/bert-base-uncased", task, train, dev, "runs/reviews")
    """

    name: ClassVar[str]
    metrics: tuple[str, ...]

    @abc.abstractmethod
    def read(self, path) -> Examples:
        """The examples of a file.

        Raises:
            FileNotFoundError: no such file.
            ValueError: what is in it is no example; the message names file and line.
        """

    @abc.abstractmethod
    def from_memory(self, data) -> Examples:
        """The examples of rows in memory, in any of the forms that `kbert.tasks.in_memory.read_columns` takes."""

    def examples(self, data) -> Examples:
        """Examples as they are, of a file's path, or of rows in memory."""
        if isinstance(data, Examples):
            return data
        return self.read(data) if isinstance(data, str | os.PathLike) else self.from_memory(data)

    def for_training(self, train: Examples) -> tuple[Self, Examples]:
        """This task with all that the training examples decide, and those of them that can be learnt.

        Raises:
            ValueError: nothing can be learnt from them.
        """
        return self, train

    def for_model(self, examples: Examples, settings) -> Examples:
        """The examples with their labels as a model has them.

        Args:
            examples: any of this task.
            settings: the model's, dict of fields of `ModelSettings`.

        Raises:
            ValueError: a label that the model does not know; the message names file and line.
        """
        return examples

    def check_dev(self, dev: Examples, settings) -> None:
        """Raises ValueError, naming file and line, where a dev set holds what a model of `settings` cannot learn."""
        return

    @abc.abstractmethod
    def settings(self, train: Examples) -> dict[str, Any]:
        """What the task and its training examples decide of a model: overrides for `kbert.load_pretrained`."""

    def pipeline_options(self, sequence_length: int) -> dict[str, Any]:
        """What depends on the length of rows: options for `kbert.build_pipeline`."""
        return {}

    @abc.abstractmethod
    def training_data(self, pipeline, train: Examples, *, class_weight=None, **batches) -> TrainingData:
        """What `pipeline.model` learns from.

        Args:
            pipeline: `kbert.Pipeline`.
            train: what `for_training` gave, as `for_model` has it.
            class_weight: {label: factor of its examples' loss}, or None.
            batches: ``batch_size, seed, padding, group_by_length``, as the datasets of all tasks take them.
        """

    @abc.abstractmethod
    def evaluate(self, pipeline, examples: Examples, *, batch_size=32, static=False, choose=False) -> Evaluation:
        """The official scores of a pipeline's answers.

        Args:
            pipeline: `kbert.Pipeline` of a model of this task.
            examples: as `for_model` has them.
            batch_size: rows a forward pass; no score depends on it.
            static: whether all batches keep the full length, as a TPU needs them.
            choose: whether settings of the answers are chosen on these examples, which is for a dev set.
        """

    @abc.abstractmethod
    def baseline_scores(self, answer, examples: Examples) -> dict[str, float]:
        """What a constant answer, of `Examples.baseline`, scores: {metric: value}."""

    def to_dict(self) -> dict[str, Any]:
        """What defines the task, for the settings of a run."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"task": self.name} | {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}
