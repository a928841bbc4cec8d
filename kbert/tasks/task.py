"""The interface of a task for fine-tuning and evaluation: how its examples are read, trained on and scored.

Shapes: n examples, N labels.
"""

import abc
import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

from kbert.inspection.view import View
from kbert.tasks.examples import Examples
from kbert.tasks.in_memory import choose_split


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """The training data of a fine-tuning.

    Attributes:
        rows: examples in an epoch, from which steps are counted.
        windows: rows for batches, if long texts are divided into windows; else as `rows`.
        real_tokens: mean number of tokens per row that are not padding.
        make_dataset: function (start_step=n) -> infinite tf.data.Dataset that starts with batch n, by default with 0.
    """

    rows: int
    windows: int
    real_tokens: float
    make_dataset: Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A model's answers to examples, and their scores.

    Attributes:
        scores: JSON-serialisable dict with the official metrics.
        settings: options of `kbert.build_pipeline` that were chosen on these examples, such as the null threshold.
        predictions: the answers: probabilities [n, N], scores [n], tags of every sentence, or answers by id.
        write: function of a directory that writes the official prediction files there; None if there are none.
        show: function that returns what TensorBoard shows of the answers, a list of `kbert.inspection.View`; None
            if that is nothing.
    """

    scores: dict[str, Any]
    predictions: Any
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    write: Callable[[Any], None] | None = None
    show: Callable[[], list[View]] | None = None


class Task(abc.ABC):
    """How the examples of one task are read, trained on and scored; base of a frozen dataclass.

    The fields of a subclass are the user's choices: columns, formats, lengths.

    Attributes:
        name: the task's word, that of `kbert.load_pretrained(task=...)` and of its folder in kbert/tasks/.
        metrics: names of its official metrics; the first chooses the best epoch.
        lower_is_better: those metrics that are better when lower.

    Raises:
        ValueError: options, examples, a model or class weights that do not suit the task.
        FileNotFoundError: on `read`, no such file.

    Example::

        task = kbert.tasks.Classification(text="review", label="stars")
        train, dev = task.read("reviews.csv").split(0.1)
        run = kbert.finetune("google-bert/bert-base-uncased", task, train, dev, "runs/reviews")
    """

    name: ClassVar[str]
    lower_is_better: ClassVar[tuple[str, ...]] = ()
    metrics: tuple[str, ...]

    def _check_metrics(self, known: Iterable[str]) -> None:
        """Makes `metrics` a tuple, of one name as well; raises ValueError unless all of them are known."""
        metrics = (self.metrics,) if isinstance(self.metrics, str) else tuple(self.metrics)
        if not metrics or set(metrics) - set(known):
            raise ValueError(
                f"{type(self).__name__}: `metrics` must be names of {list(known)}, at least one. "
                f"Received: {self.metrics!r}"
            )
        object.__setattr__(self, "metrics", metrics)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """A task object from options that may be of any task, such as a program's arguments.

        Args:
            options: field → value; None: not given, which is the field's default.

        Raises:
            ValueError: an option that this task does not have.
        """
        given = {name: value for name, value in options.items() if value is not None}
        fields = [field.name for field in dataclasses.fields(cls)]
        if others := {name: value for name, value in given.items() if name not in fields}:
            raise ValueError(f"Expected options of {cls.__name__}, which are {fields}. Received: {others}")
        return cls(**given)

    @abc.abstractmethod
    def read(self, path) -> Examples:
        """The examples of a file.

        Raises:
            FileNotFoundError: no such file.
            ValueError: invalid examples; the message names file and line.
        """

    def read_dev(self, path) -> Examples:
        """The examples of a file to evaluate on; of a directory of splits those of its dev split."""
        return self.read(path)

    def dev_sets(self, path) -> dict[str, Examples]:
        """All examples to evaluate on that are there; most tasks have one set of them.

        Returns:
            {suffix of the names of their metrics: examples}, the first one's "".
        """
        return {"": self.read_dev(path)}

    @abc.abstractmethod
    def from_memory(self, data) -> Examples:
        """The examples of rows in memory, in any of the forms that `kbert.tasks.read_columns` takes."""

    def examples(self, data, dev: bool = False) -> Examples:
        """Examples, with `dev` those to evaluate on: as given, from a path, or from rows in memory.

        Of a Hugging Face DatasetDict they are the split "train", with `dev` "validation".
        """
        if isinstance(data, Examples):
            return data
        if not isinstance(data, str | os.PathLike):
            return self.from_memory(choose_split(data, "validation" if dev else "train"))
        return self.read_dev(data) if dev else self.read(data)

    def for_training(self, train: Examples) -> tuple[Self, Examples]:
        """This task, completed from the training examples, and those examples that can be learned.

        Raises:
            ValueError: none of them can be learned.
        """
        return self, train

    def check_pipeline(self, pipeline) -> None:
        """Raises ValueError unless a pipeline's model answers this task."""
        if pipeline.model.task != self.name:
            raise ValueError(f"evaluate: expected a {self.name} model. Received: a {pipeline.model.task} model")

    def check_examples(self, pipeline, examples: Examples) -> None:
        """Raises ValueError if the examples are of another kind than those that the pipeline's model was trained on."""
        return

    def for_model(self, examples: Examples, settings) -> Examples:
        """The examples with the labels of a model.

        Raises:
            ValueError: a label that the model does not know; the message names file and line. Or metrics that are not
                for so many labels.
        """
        return examples

    def check_dev(self, dev: Examples, settings) -> None:
        """Raises a ValueError with file and line if a dev set has labels that a model of `settings` lacks."""
        return

    @abc.abstractmethod
    def settings(self, train: Examples) -> dict[str, Any]:
        """The model settings that task and training examples decide: overrides for `kbert.load_pretrained`."""

    def pipeline_options(self, sequence_length: int) -> dict[str, Any]:
        """Settings that depend on the sequence length: options for `kbert.build_pipeline`."""
        return {}

    @abc.abstractmethod
    def training_data(self, pipeline, train: Examples, **batches) -> TrainingData:
        """The training data of `pipeline.model`.

        Args:
            train: the result of `for_training`, after `for_model`.
            batches: ``batch_size, seed, padding, group_by_length``, as for the datasets of all tasks, and
                ``class_weight`` where it was given and `check_class_weight` accepts it.
        """

    def check_class_weight(self, class_weight, pipeline, train: Examples) -> None:
        """Raises ValueError unless `class_weight` of `kbert.finetune` suits the task; most have no classes."""
        raise ValueError(f"`class_weight` is for a classifier's labels. Received: {class_weight!r}")

    @abc.abstractmethod
    def evaluate(self, pipeline, examples: Examples, *, batch_size=32, static=False, choose=False) -> Evaluation:
        """The official scores of a pipeline's answers.

        Args:
            pipeline: `kbert.Pipeline` of a model of this task.
            examples: after `for_model`.
            batch_size: rows per forward pass; scores do not depend on it.
            static: whether all batches keep the full length, which a TPU needs.
            choose: whether settings of the answers are chosen on these examples (only for a dev set).
        """

    @abc.abstractmethod
    def baseline_scores(self, answer, examples: Examples) -> dict[str, float]:
        """The scores of a constant answer, that of `Examples.baseline`: {metric: value}."""

    def to_dict(self) -> dict[str, Any]:
        """The settings of the task, as part of those of a run."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"task": self.name} | {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}
