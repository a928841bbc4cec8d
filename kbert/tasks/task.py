"""The object of a task: all that kbert knows about it, from the files of its examples to the answers of a served model.

Shapes: n examples, N labels, S sequence.
"""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self

import numpy as np

from kbert.checks import check_labels
from kbert.options import check_fields, to_json
from kbert.pipelines.settings import DEFAULT_SEQUENCE_LENGTH, default_labels
from kbert.tasks.examples import Examples
from kbert.tasks.in_memory import choose_split, table_of
from kbert.tasks.table import Table

if TYPE_CHECKING:
    from kbert.answers.answers import Answers
    from kbert.config import BertConfig
    from kbert.inspection.view import View
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.preprocessing.preprocessor import Preprocessor
    from kbert.text.tokenizer import BertTokenizer

SENTENCE = "The committee met on Tuesday in Geneva, and Ada Lovelace spoke about engines that compute. "
LONG_TEXT = SENTENCE * 12

_TEXTS = {
    ("text",): [{"text": "A charming and often affecting journey."}, {"text": LONG_TEXT}],
    ("text", "text_pair"): [
        {"text": "How old are you?", "text_pair": "I am 27 years old."},
        {"text": LONG_TEXT, "text_pair": SENTENCE},
    ],
}


@dataclasses.dataclass(frozen=True)
class TaskSignature:
    """A signature of a served model.

    Attributes:
        finish: ``finish(batch, inputs)``, a function of the preprocessor's batch and the string columns. It returns a
            dict of outputs with the first dimension of the columns.
        preprocessor: of the inputs. None: the pipeline's own.
        values_per_row: the number of floats of the largest output or intermediate result for a row of S tokens.
        kind: "predict", or "classify" or "regress", which take tf.Examples with the columns as features.
    """

    finish: Callable
    preprocessor: Any = None
    values_per_row: int = 1
    kind: str = "predict"


def answering(pipeline: "Pipeline", answers: "Answers | None" = None, values_per_row: int = 1) -> TaskSignature:
    """The signature that returns a pipeline's answers, or other `answers` from the same outputs of its model."""
    return TaskSignature(_Answering(pipeline.model, answers or pipeline.answers), values_per_row=values_per_row)


@dataclasses.dataclass(frozen=True)
class _Answering:
    """Two of these with the same objects are equal, so that an export has one graph for both."""

    model: Any
    answers: Any

    def __call__(self, batch, inputs):
        from kbert.pipelines.run_in_length_buckets import answer_batch  # not above: it loads TensorFlow

        return answer_batch(self.model, self.answers, batch)


def of_model(default: Any, can_be_off: bool = False) -> Any:
    """A field of a task that a model is used with, so that it is stored beside the model.

    The other fields, but those of `of_training`, say how files are read and how answers are scored.

    Args:
        default: the field's value if none is given.
        can_be_off: whether None is a value, "off". Otherwise None means "as stored" in `kbert.build_pipeline`.
    """
    return dataclasses.field(default=default, metadata={"of_model": True, "can_be_off": can_be_off})


def of_training(default: Any) -> Any:
    """A field of a task that only a training asks for, as the model that comes out of it holds its value itself."""
    return dataclasses.field(default=default, metadata={"of_training": True})


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """The training data of a fine-tuning."""

    examples: int  # in an epoch, from which steps are counted
    windows: int  # rows for batches: all windows where long texts are divided into them, else as `examples`
    real_tokens: float  # mean number of tokens per row that are not padding
    make_dataset: Callable[..., Any]  # (start_step=0) -> infinite tf.data.Dataset that starts with that batch


@dataclasses.dataclass(frozen=True)
class TeacherAnswers:
    """What a teacher answers to training examples."""

    outputs: Mapping[str, np.ndarray]  # float32 logits or scores of each example (spans: window, tags: word), by output
    labelled: int  # the first so many examples have labels, the others none

    def beside(self, labels: Mapping[str, np.ndarray], examples: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """The targets of `kbert.optim.DistillationLoss`, float32 [n, h + N], from labels by output, [n] or [n, h].

        `examples` are the numbers of the rows' examples (None: of the rows).
        """
        targets = {}
        for name, answers in self.outputs.items():
            own = np.array(labels[name], "float32").reshape(len(labels[name]), -1)
            numbers = np.arange(len(own)) if examples is None else examples
            own[numbers >= self.labelled, 0] = np.nan  # no label
            targets[name] = np.concatenate([own, answers.reshape(len(own), -1)], axis=1)
        return targets


def columns_of_labels(labels: Sequence[str], of_teacher: Sequence[str]) -> list[int]:
    """The columns of a teacher's logits in the order of a model's labels, which must be equal sets."""
    if set(labels) != set(of_teacher):
        raise ValueError(f"expected a model with the labels {list(labels)}. Received: labels {list(of_teacher)}")
    return [list(of_teacher).index(label) for label in labels]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A model's answers to examples, and their scores.

    Attributes:
        scores: JSON-serialisable dict with the official metrics.
        settings: options of `kbert.build_pipeline` that were chosen on these examples, such as the null threshold.
        predictions: the answers: probabilities [n, N], scores [n], tags of every sentence, or answers by id.
        write: function of a directory that writes the official prediction files there. None: there are none.
        show: function that returns what TensorBoard shows of the answers, a list of `kbert.inspection.View`. None:
            nothing.
    """

    scores: dict[str, Any]
    predictions: Any
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    write: Callable[[Any], None] | None = None
    show: "Callable[[], list[View]] | None" = None


class Task:
    """A task. The base of a frozen dataclass with one class for each task, registered by `register_task`.

    Its fields are the user's choices, checked by their annotations as in `kbert.options.Options`. Those made by
    `of_model` are stored in the model's config.json, and come back when it is loaded: labels, pairs, windows,
    thresholds. The others say how files are read and answers scored.

    A task whose models are used, but not fine-tuned on examples, defines its model, `parts` and `signatures`.
    TensorFlow and Keras are imported in the methods that need them, so that the command's help and models on JAX do
    without.

    Attributes:
        name: the task's word, in ``model.task`` and `kbert.load_pretrained(task=...)`.
        is_finetuned: whether there are examples to fine-tune it on and to score it with.
        model_name: the model's class in `kbert.models`. A task from outside kbert overrides `model_class`.
        answer_names: output of an export → the class of its answers in `kbert.answers`.
        signature: the name of the signature, besides ``serving_default``, with the answers.
        heads: the model's layers besides its encoder, as the first parts of the paths of their variables.
        model_arguments: arguments of the model's class for this task.
        default_length: tokens of a text by default.
        labels: a field of tasks with labels: the names of the logits, in their order. None: not known, or none.
        thresholds: a field of tasks with several labels a text. None: 0.5 each.
        metrics: a field: names of its official metrics. The first one chooses the best epoch.
        even_batches: whether replicas must share a batch evenly.
        lower_is_better: the metrics that are better when lower.
        nested_columns: the columns of a table whose cells may be lists or dicts.
        reading: the fields that say how files are read, in a training and after it.
        lists: fields that are lists, for which a single string counts as well.

    Raises:
        ValueError: fields, examples, a model or class weights that do not suit the task, or examples of a task that has
            none.
        NotImplementedError: a subclass does not define what it has to.
        FileNotFoundError: on `read`, no such file.

    Example::

        task = kbert.tasks.Classification(text="review", label="stars")
        train, dev = task.read("reviews.csv").split(0.1)
        run = kbert.finetune("google-bert/bert-base-uncased", task, train, dev, "runs/reviews")
    """

    name: ClassVar[str]
    is_finetuned: ClassVar[bool] = True
    model_name: ClassVar[str] = ""
    answer_names: ClassVar[Mapping[str, str]] = {}
    signature: ClassVar[str] = ""
    heads: ClassVar[tuple[str, ...]] = ()
    model_arguments: ClassVar[Mapping[str, Any]] = {}
    default_length: ClassVar[int] = DEFAULT_SEQUENCE_LENGTH
    even_batches: ClassVar[bool] = False
    lower_is_better: ClassVar[tuple[str, ...]] = ()
    nested_columns: ClassVar[Sequence[str]] = ()
    reading: ClassVar[tuple[str, ...]] = ("text", "text_pair", "label")
    lists: ClassVar[tuple[str, ...]] = ("metrics",)
    labels = None
    thresholds = None
    metrics = ()

    # Its fields

    def __post_init__(self):
        check_fields(self, self._prepared)

    def _prepared(self, name: str, value: Any) -> Any:
        """What is checked for a field: a NumPy array is a list, and a single string can be one."""
        value = value.tolist() if isinstance(value, np.ndarray) else value
        if name in self.lists and isinstance(value, str):
            value = (value,)
        return check_labels(value, type(self).__name__) if name == "labels" and value is not None else value

    def _check_metrics(self, known: Iterable[str]) -> None:
        """Raises ValueError unless there are metrics and all of them are known."""
        if not self.metrics or set(self.metrics) - set(known):
            raise ValueError(
                f"{type(self).__name__}: `metrics` must be names of {list(known)}, at least one. "
                f"Received: {self.metrics!r}"
            )

    @classmethod
    def option_names(cls, can_be_off: bool = False) -> tuple[str, ...]:
        """The fields that a model is used with, with `can_be_off` only those for which None is a value."""
        key = "can_be_off" if can_be_off else "of_model"
        return tuple(field.name for field in dataclasses.fields(cls) if field.metadata.get(key))

    def options(self) -> dict[str, Any]:
        """The fields that a model is used with, such as labels and thresholds."""
        return {name: getattr(self, name) for name in self.option_names()}

    def stored(self) -> dict[str, Any]:
        """`options` as config.json holds them."""
        return to_json(self.options())

    @classmethod
    def from_stored(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of `stored`. ``name`` may be among the fields."""
        values = {name: value for name, value in fields.items() if name != "name"}
        if unknown := sorted(set(values) - set(cls.option_names())):
            raise ValueError(f"{cls.__name__}: unknown fields {unknown}. Known: {sorted(cls.option_names())}")
        return cls(**values)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """A task object from options that may be of any task. None means that an option was not given."""
        values = {name: value for name, value in options.items() if value is not None}
        fields = [field.name for field in dataclasses.fields(cls)]
        if others := {name: value for name, value in values.items() if name not in fields}:
            raise ValueError(f"Expected options of {cls.__name__}, which are {fields}. Received: {others}")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """The settings of the task, as part of those of a run."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"task": self.name, **to_json(fields)}

    # Its model, from strings to answers

    @classmethod
    def model_class(cls) -> type:
        """The subclass of `kbert.models.BertModel`, by default that of `model_name`."""
        if not cls.model_name:
            raise NotImplementedError
        from kbert import models

        return getattr(models, cls.model_name)

    @classmethod
    def default_sequence_length(cls, longest: int) -> int:
        """Tokens of a text by default, at most `longest`."""
        return min(cls.default_length, longest)

    @classmethod
    def for_vocabulary(cls, size: int) -> Self:
        """The task with the defaults for a model of that many tokens."""
        return cls()

    def bounds(self, config: "BertConfig") -> dict[str, int]:
        """The most that fields with counts may be in a model of this `kbert.BertConfig`. For others it is 4,096."""
        return {}

    def parts(
        self, model: "BertModel", tokenizer: "BertTokenizer", sequence_length: int
    ) -> "tuple[Preprocessor, Answers]":
        """The `kbert.preprocessing.Preprocessor` and `kbert.answers.Answers` of a model's pipeline."""
        raise NotImplementedError

    def check_options(self, given: Collection[str]) -> None:
        """Raises ValueError where fields contradict each other. `given` were given, the others are as stored."""

    def labels_of(self, model: "BertModel") -> list[str]:
        """The labels of a model's logits, by default "0", "1", ..."""
        labels = default_labels(model.num_labels)[0] if self.labels is None else list(self.labels)
        if len(labels) != model.num_labels:
            raise ValueError(f"`labels` must be {model.num_labels} names, one for each logit. Received: {labels}")
        return labels

    def prediction_options(self) -> dict[str, Any]:
        """The fields for prediction files that differ from those of a pipeline."""
        return {}

    # Its model, exported

    @classmethod
    def signatures(cls, pipeline: "Pipeline") -> dict[str, TaskSignature]:
        """The signatures of a served model besides the pipeline itself.

        By default `signature` alone, with the pipeline's answers. A subclass may take more arguments: options of
        `kbert.export` that only this task has.
        """
        return {cls.signature: answering(pipeline)} if cls.signature else {}

    @classmethod
    def exported_answers(cls, labels: list[str] | None, outputs: frozenset[str]) -> "Answers":
        """The `kbert.answers.Answers` of an export, for the methods `to_dicts` and `table_row`.

        `labels` are those of the export's card, `outputs` the names of the outputs of ``serving_default``.
        """
        from kbert import answers

        for output, name in cls.answer_names.items():
            if output in outputs:
                kind = getattr(answers, name)
                return kind(labels) if "labels" in kind.option_names else kind()
        raise ValueError(f"Expected a task whose exports answer files. Received: {cls.name}")

    @classmethod
    def values_per_row(cls, pipeline: "Pipeline") -> int:
        """The number of floats of the pipeline's largest output or intermediate result for a row of S tokens."""
        return 1

    @classmethod
    def example_rows(cls, names: tuple[str, ...]) -> list[dict]:
        """Requests of one row each for these columns, a short one first. They are for warm-up and the model card."""
        if tuple(names) not in _TEXTS:
            raise ValueError(f"export: expected one of the inputs {sorted(_TEXTS)}. Received: {tuple(names)}")
        return _TEXTS[tuple(names)]

    @classmethod
    def read_columns(
        cls, path: pathlib.Path, columns: Mapping[str, Sequence[str]], format: str | None
    ) -> dict[str, Sequence] | None:
        """A file of inputs without labels, for predictions, as column → values.

        `columns` are the file's, by the pipeline's inputs. The values of an input with several columns have the input's
        name. `format` is given to a task with a field of this name. None: the file is a table, or has one text per
        line.
        """
        return None

    # Its examples

    def _without_examples(self) -> NoReturn:
        if not self.is_finetuned:
            raise ValueError(f"Expected a task that is fine-tuned on examples. Received: {self.name!r}")
        raise NotImplementedError

    def read(self, data: Any) -> Examples:
        """The examples of a file, or of rows in memory in any of the forms that `kbert.tasks.read_columns` takes.

        The message of an error names file and line, or row.
        """
        return self._from_table(table_of(data, self.table_columns, nested=self.nested_columns))

    def read_dev(self, path: str | os.PathLike) -> Examples:
        """The examples of a file to evaluate on. Of a directory of splits it reads the dev split."""
        return self.read(path)

    def dev_sets(self, path: str | os.PathLike) -> dict[str, Examples]:
        """All examples to evaluate on that exist, by the suffix of the names of their metrics. The first is ""."""
        return {"": self.read_dev(path)}

    @property
    def table_columns(self) -> list[str]:
        """The columns of a table that are read, in the order of a row given as a tuple."""
        self._without_examples()

    def _from_table(self, table: Table) -> Examples:
        self._without_examples()

    def examples(self, data: Any, dev: bool = False) -> Examples:
        """Examples as given, from a path, or from rows in memory.

        Of a Hugging Face DatasetDict the split "train" is read, or "validation" to evaluate on, with `dev`.
        """
        if isinstance(data, Examples):
            return data
        if not isinstance(data, str | os.PathLike):
            return self.read(choose_split(data, "validation" if dev else "train"))
        return self.read_dev(data) if dev else self.read(data)

    def for_training(self, train: Examples) -> tuple[Self, Examples]:
        """This task, completed from the training examples, and those of them that can be learned."""
        return self, train

    def settings(self, train: Examples) -> dict[str, Any]:
        """What the task, after `for_training`, and the examples decide about the model, for `kbert.load_pretrained`.

        By default these are the fields of the model that differ from their defaults.
        """
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        return {name: value for name, value in self.options().items() if value != defaults[name]}

    def check_pipeline(self, pipeline: "Pipeline") -> None:
        """Raises ValueError unless a pipeline's model answers this task."""
        if pipeline.model.task != self.name:
            raise ValueError(f"expected a {self.name} model. Received: a {pipeline.model.task} model")

    def check_examples(self, pipeline: "Pipeline", examples: Examples) -> None:
        """Raises ValueError if a pipeline's model was trained on examples of another kind."""

    def for_model(self, examples: Examples, settings: Mapping[str, Any]) -> Examples:
        """The examples with the labels of a model. An error names file and line of a label that it does not know."""
        return examples

    def check_dev(self, dev: Examples, settings: Mapping[str, Any]) -> None:
        """Raises a ValueError with file and line if a dev set has labels that a model of `settings` lacks."""

    # Its training and its scores

    def check_training(
        self, pipeline: "Pipeline", train: Examples, class_weight: Mapping[Any, float] | Literal["balanced"] | None
    ) -> None:
        """Raises ValueError unless a pipeline's model can be trained on examples, after `for_model`.

        `class_weight` is that of `kbert.finetune`. Most tasks have no classes.
        """
        if class_weight is not None:
            raise ValueError(f"`class_weight` is for a classifier's labels. Received: {class_weight!r}")

    def training_data(self, pipeline: "Pipeline", train: Examples, **batches) -> TrainingData:
        """The training data of `pipeline.model`.

        Args:
            pipeline: of a model of this task.
            train: the result of `for_training`, after `for_model`.
            batches: ``batch_size, seed, padding, group_by_length``, as for `training_dataset`. Also
                ``class_weight`` where it was given and `check_training` accepts it, and ``teacher``, a
                `TeacherAnswers`, where `teacher_answers` gave them.
        """
        self._without_examples()

    def with_texts(self, train: Examples, columns: Mapping[str, list]) -> Examples:
        """The training examples, followed by texts without labels, given by the pipeline's inputs."""
        self._without_teacher()

    def teacher_answers(
        self, teacher: "Pipeline", pipeline: "Pipeline", examples: Examples, batch_size: int
    ) -> dict[str, np.ndarray]:
        """The ``outputs`` of `TeacherAnswers` by the pipeline `teacher`, for examples after `for_model`."""
        self._without_teacher()

    def _without_teacher(self) -> NoReturn:
        raise ValueError(
            f"finetune: `teacher` is for classification, regression, tagging and spans. Received: a {self.name} task"
        )

    def evaluate(
        self,
        pipeline: "Pipeline",
        examples: Examples,
        *,
        batch_size: int = 32,
        static: bool = False,
        choose: bool = False,
    ) -> Evaluation:
        """The official scores of a pipeline's answers.

        Args:
            pipeline: of a model of this task.
            examples: after `for_model`.
            batch_size: rows per forward pass. Scores do not depend on it.
            static: whether all batches keep the full length, which a TPU needs.
            choose: whether settings of the answers are chosen on these examples (only for a dev set).
        """
        self._without_examples()

    def baseline_scores(self, answer: Any, examples: Examples) -> dict[str, float]:
        """The scores of a constant answer, which `Examples.baseline` gives: {metric: value}."""
        self._without_examples()
