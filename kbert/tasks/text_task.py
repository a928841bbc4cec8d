"""Classification and regression: an answer to each text, pair of texts or long document.

Shapes: B batch, N labels.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np

from kbert.checks import Bounds, check_labels, shown
from kbert.inspection.markdown import escape
from kbert.options import Count
from kbert.pipelines.text_columns import TextColumns, is_names, names_of
from kbert.tasks.labelled_text import (
    LabelledText,
    check_labels_given,
    distinct_labels,
    from_table,
    on_or_off,
    shown_labels,
    split_labels,
)
from kbert.tasks.metrics import (
    CLASS_METRICS,
    LOWER_IS_BETTER,
    MULTI_LABEL_METRICS,
    NUMBER_METRICS,
    OWN_METRICS,
    metrics_of,
)
from kbert.tasks.stored_texts import store_columns
from kbert.tasks.table import Table, as_cell
from kbert.tasks.task import (
    Evaluation,
    Task,
    TaskSignature,
    TeacherAnswers,
    TrainingData,
    answering,
    columns_of_labels,
    of_model,
)

if TYPE_CHECKING:
    from kbert.answers.answers import Answers
    from kbert.inspection.view import View
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.preprocessing.preprocessor import Preprocessor
    from kbert.text.tokenizer import BertTokenizer

_MOST_CHARACTERS = 300
_LEAST = 1e-12  # a teacher's probability


def example_columns(examples: LabelledText) -> tuple[list[str], Callable[[int], list[str]]]:
    """(names of columns, function of a row that returns Markdown for them): the texts, and the place in their file."""
    columns = examples.columns

    def cells(row):
        return [*(escape(texts[row], _MOST_CHARACTERS) for texts in columns.values()), escape(examples.source(row))]

    return [*(name.replace("_", " ") for name in columns), "from"], cells


@dataclasses.dataclass(frozen=True)
class TextTask(Task):
    """Texts, or pairs of them, with a label each; base of `Classification` and `Regression`."""

    text: str | tuple[str, ...] = "text"
    label: str = "label"
    text_pair: str | None = None
    window_pooling: Literal["max", "mean"] | None = of_model(None, can_be_off=True)
    doc_stride: Count = of_model(128)
    pair: bool = of_model(False)
    metrics: tuple[str, ...] = ()
    text_separator: str = TextColumns.separator

    reading = ("text", "text_separator", "text_pair", "label")
    lower_is_better = LOWER_IS_BETTER

    def __post_init__(self):
        super().__post_init__()
        if not is_names(self.text):
            raise ValueError(f"{type(self).__name__}: `text` must name at least one column. Received: {self.text!r}")
        if self.window_pooling and self.text_pair:
            raise ValueError(
                f"{type(self).__name__}: windows are of single texts. Received: window_pooling="
                f"{self.window_pooling!r} and text_pair={self.text_pair!r}"
            )

    def preprocessor(self, tokenizer: "BertTokenizer", sequence_length: int) -> "Preprocessor":
        """Truncates texts or pairs, or with `window_pooling` divides long texts into windows."""
        if self.window_pooling is None:
            from kbert.preprocessing.preprocessor import TextPreprocessor

            return TextPreprocessor(tokenizer, sequence_length, self.pair, name="preprocessor")
        from kbert.preprocessing.window_preprocessors import DocumentPreprocessor

        return DocumentPreprocessor(tokenizer, sequence_length, self.doc_stride, name="preprocessor")

    def check_options(self, given: Collection[str]) -> None:
        if "doc_stride" in given and self.window_pooling is None:
            raise ValueError(
                "`doc_stride` goes with `window_pooling`, without which texts are truncated. "
                f"Received: doc_stride={self.doc_stride}, window_pooling=None"
            )
        if self.pair and self.window_pooling is not None:
            raise ValueError("`window_pooling` is for single texts. Received: pair=True")

    @property
    def table_columns(self) -> list[str]:
        columns = (*names_of(self.text), self.text_pair, *names_of(self.label))
        return [name for name in columns if name is not None]

    def _with_texts(self, table: Table) -> Table:
        """The table with the texts that are joined from several columns, under the tuple of their names."""
        if not isinstance(self.text, str):
            rows = zip(*(table[name] for name in self.text), strict=True)
            (table[self.text],) = store_columns(([self.text_separator.join(row)] for row in rows), 1)
        return table

    def for_training(self, train: LabelledText) -> tuple[Self, LabelledText]:
        if self.pair and not train.pair:
            raise ValueError(
                f"{type(self).__name__}: `pair` needs a second text in the examples, the column `text_pair`. Received: "
                "single texts"
            )
        return dataclasses.replace(self, pair=train.pair), train

    def settings(self, train: LabelledText) -> dict[str, Any]:
        stride = {"doc_stride": self.doc_stride} if self.window_pooling else {}
        return {"pair": train.pair, "window_pooling": self.window_pooling, **stride}

    def check_examples(self, pipeline: "Pipeline", examples: LabelledText) -> None:
        labels = {True: "several labels a text (label_separator)", False: "one label a text"}
        texts = {True: "pairs of texts", False: "single texts"}
        for kinds, expected, received in (
            (labels, pipeline.model.multi_label, examples.multi_label),
            (texts, pipeline.preprocessor.pair, examples.pair),
        ):
            if expected != received:
                raise ValueError(f"this model was trained on {kinds[expected]}. Received: {kinds[received]}")

    def check_training(
        self, pipeline: "Pipeline", train: LabelledText, class_weight: Mapping[Any, float] | Literal["balanced"] | None
    ) -> None:
        from kbert.tasks.training_data import example_weights

        if class_weight is not None:
            example_weights(class_weight, pipeline, train.labels)  # raises

    def with_texts(self, train: LabelledText, columns: Mapping[str, list]) -> LabelledText:
        texts, pairs = columns["text"], columns.get("text_pair")
        return dataclasses.replace(
            train,
            texts=[*train.texts, *texts],
            text_pairs=pairs and [*train.text_pairs, *pairs],
            labels=np.concatenate([train.labels, np.zeros((len(texts), *train.labels.shape[1:]), train.labels.dtype)]),
            lines=(),
        )

    def teacher_answers(
        self, teacher: "Pipeline", pipeline: "Pipeline", examples: LabelledText, batch_size: int
    ) -> dict[str, np.ndarray]:
        from kbert.tasks.scores import predict_scores

        self.check_examples(teacher, examples)
        (name,) = pipeline.model.output
        answers = predict_scores(teacher, examples.columns, batch_size=batch_size)
        if name == "logits":
            answers = answers[:, columns_of_labels(pipeline.answers.labels, teacher.answers.labels)]
            off = np.maximum(1.0 - answers, _LEAST) if examples.multi_label else 1.0
            answers = np.log(np.maximum(answers, _LEAST) / off)
        return {name: answers.astype("float32")}

    def training_data(
        self,
        pipeline: "Pipeline",
        train: LabelledText,
        *,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        teacher: TeacherAnswers | None = None,
        **batches,
    ) -> TrainingData:
        from kbert.tasks import training_data as data

        preprocessor = pipeline.preprocessor
        labels = data.labels_by_output(train, pipeline.model.num_labels)
        if teacher is not None:
            labels = teacher.beside(labels)

        def weights(ids):
            return None if class_weight is None else data.example_weights(class_weight, pipeline, ids)

        if not preprocessor.makes_windows:
            rows = data.example_rows(train, preprocessor, labels=labels, weights=weights(train.labels))
            return data.as_training_data(rows, data.real_tokens(train, preprocessor), **batches)
        store = data.WindowStore.from_examples(train, preprocessor)  # each window has the label of its text
        labels = {name: values[store.rows] for name, values in labels.items()}
        rows = data.window_rows(store, labels, weights(train.labels[store.rows]))
        return data.as_training_data(rows, store.real_tokens, **batches)

    def evaluate(
        self,
        pipeline: "Pipeline",
        examples: LabelledText,
        *,
        batch_size: int = 32,
        static: bool = False,
        choose: bool = False,
    ) -> Evaluation:
        from kbert.tasks.scores import evaluate

        scores, predictions = evaluate(pipeline, examples, self.metrics, batch_size=batch_size, static=static)
        return Evaluation(scores, predictions, show=lambda: self._views(pipeline, examples, predictions, scores))

    def _views(self, pipeline, examples, predictions, scores) -> "list[View]":
        """What TensorBoard shows of predictions."""
        return []

    def baseline_scores(self, answer: float | np.ndarray, examples: LabelledText) -> dict[str, float]:
        answers = np.broadcast_to(answer, examples.labels.shape)
        return {name: metrics_of(examples.labels)[name](examples.labels, answers) for name in self.metrics}


@dataclasses.dataclass(frozen=True)
class Classification(TextTask):
    """Predicts a label, or any number of labels, for each text or pair of texts (section 4.1 of the paper).

    Its model answers ``label`` and ``probabilities``. It is also served as ``classify`` on tf.Examples.

    Args:
        text: name of the text's column, or of several columns that are joined to one text.
        text_separator: what joins the texts of several columns, a space by default.
        label: name of the label's column. With several labels a text, also a list of columns of 0 and 1, one for each
            label and named as the label.
        text_pair: name of the second text's column, for pairs.
        window_pooling: "mean" or "max" divides texts that do not fit into windows, and pools the answers of the
            windows. None truncates them.
        doc_stride: with `window_pooling`, the number of tokens from one window to the next.
        pair: whether the texts of a model come in pairs. A training finds it in its examples.
        metrics: one or more of ``accuracy, macro_f1, matthews`` and, with two labels, ``f1`` of the second one. With
            several labels a text, one or more of ``micro_f1, macro_f1, subset_accuracy``. The first one chooses the
            best epoch. None: all of them but ``f1``.
        label_separator: what separates the labels of a text, such as ``"|"``. A text may then have several labels, or
            none, and each label is predicted independently (``BertClassifier(multi_label=True)``). The labels of a
            text may also be a list of names or, with `labels`, a list of 0 and 1 for each label. None: one label per
            text, unless `label` is a list of columns.
        labels: all labels, in the order of the logits. None: the model's labels, or the sorted labels of the training
            examples where the model has none.
        thresholds: with several labels a text, the probability that each label has to exceed, in the order of `labels`.
            None: the model's thresholds, or 0.5 each where the model has none.

    Raises:
        ValueError: `window_pooling` with pairs, an empty `label_separator`, one beside a list of label columns, label
            columns that do not differ, or unknown metrics. `for_model`, and so
            `kbert.finetune` and `kbert.evaluate`, refuse ``f1`` unless there are two labels.

    Example::

        task = Classification(text="review", label="stars")
        train, dev = task.read("reviews.csv").split(0.1)
    """

    label: str | tuple[str, ...] = "label"
    metrics: tuple[str, ...] | None = None
    label_separator: str | None = None
    labels: tuple[str, ...] | None = of_model(None)
    thresholds: tuple[Annotated[float, Bounds("(0, 1)")], ...] | None = of_model(None, can_be_off=True)

    name = "classification"
    model_name = "BertClassifier"
    answer_names = {"label": "ClassificationAnswers", "is_on": "MultiLabelAnswers"}
    reading = (*TextTask.reading, "label_separator")
    heads = ("classifier_head",)

    def __post_init__(self):
        super().__post_init__()
        if self.label_separator == "":
            raise ValueError("Classification: `label_separator` must not be empty. Received: ''")
        if not isinstance(self.label, str):
            check_labels(self.label, "Classification", "label")
            if self.label_separator is not None:
                raise ValueError(
                    "Classification: `label_separator` is for a single column of labels. Received: "
                    f"label={self.label!r} and label_separator={self.label_separator!r}"
                )
        self._check_metrics(MULTI_LABEL_METRICS if self._multi_label else CLASS_METRICS)

    @property
    def _multi_label(self) -> bool:
        """Whether the examples have any number of labels a text."""
        return self.label_separator is not None or not isinstance(self.label, str)

    def _prepared(self, name, value):
        if name == "metrics" and value is None:
            return OWN_METRICS["multi_label" if self._multi_label else "classification"]
        return super()._prepared(name, value)

    def parts(
        self, model: "BertModel", tokenizer: "BertTokenizer", sequence_length: int
    ) -> "tuple[Preprocessor, Answers]":
        from kbert.answers.labels import ClassificationAnswers, MultiLabelAnswers

        labels = self.labels_of(model)
        if model.multi_label:
            answers = MultiLabelAnswers(labels, self.thresholds, self.window_pooling, name="answers")
        elif self.thresholds is not None:
            raise ValueError("`thresholds` are a multi-label classifier's (multi_label=True).")
        else:
            answers = ClassificationAnswers(labels, self.window_pooling, name="answers")
        return self.preprocessor(tokenizer, sequence_length), answers

    @classmethod
    def signatures(cls, pipeline: "Pipeline") -> dict[str, TaskSignature]:
        import tensorflow as tf

        labels = list(pipeline.answers.labels)
        plain = answering(pipeline)

        def classify(batch, inputs):
            scores = plain.finish(batch, inputs)["probabilities"]  # [B, N]
            classes = tf.tile(tf.constant([labels]), [tf.shape(scores)[0], 1])  # [B, N]; cut by a server into requests
            return {"classes": classes, "scores": scores}

        return {"classify": dataclasses.replace(plain, finish=classify, kind="classify")}

    @property
    def nested_columns(self) -> tuple[str, ...]:
        return (self.label,) if isinstance(self.label, str) else ()

    def _joined(self, table) -> list[str]:
        """The label column with lists of labels as a table of text would have them."""
        cells = table[self.label]
        are_switches = self._are_switches(cells)
        joined = []
        for row, cell in enumerate(cells):
            where = table.where(row)
            if isinstance(cell, dict):
                raise ValueError(
                    f"{where}: {self.label!r} must be a string, a number or a list. Received: {shown(cell)}"
                )
            if isinstance(cell, list):
                number = table.lines[row]
                names = [as_cell(label, self.label, table.path, number).strip() for label in cell]
                cell = self._joined_cell(where, cell, self._labels_on(where, cell) if are_switches else names)
            joined.append(cell)
        return joined

    def _are_switches(self, cells: Sequence) -> bool:
        """Whether cells are the rows of a table of 0 and 1, with a column for each label, and not lists of labels."""
        if not all(isinstance(cell, list) for cell in cells) or len(sizes := set(map(len, cells))) > 1:
            return False
        items = {str(item) for cell in cells for item in cell}
        is_wide = sizes != {1} or self.labels is not None and len(self.labels) == 1
        return is_wide and None not in map(on_or_off, items) and not items <= set(self.labels or ())

    def _labels_on(self, where, cell):
        """The labels that a row of a table of 0 and 1 has."""
        if self.labels is None or len(self.labels) != len(cell):
            known = "the labels have no names" if self.labels is None else f"there are {len(self.labels)} labels"
            raise ValueError(
                f"{where}: {self.label!r} is a list of {len(cell)} times 0 or 1, but {known}. Received: "
                f"{shown(cell)}. Name a label for each, in their order, as in "
                'Classification(label_separator="|", labels=["funny", "sad"])'
            )
        return [label for label, item in zip(self.labels, cell, strict=True) if on_or_off(item)]

    def _joined_cell(self, where, cell, labels):
        separator = self.label_separator
        if separator is None:
            raise ValueError(
                f"{where}: expected one label in {self.label!r}. Received: {shown(cell)}. For several labels a text "
                'give Classification(label_separator="|")'
            )
        if len(set(labels)) < len(labels) or any(separator in label or not label for label in labels):
            raise ValueError(
                f"{where}: expected in {self.label!r} names of labels that differ and do not contain "
                f"`label_separator`, {separator!r}. Received: {shown(cell)}"
            )
        return separator.join(labels)

    def _from_table(self, table):
        table = self._with_texts(table)
        columns = {"text": self.text, "text_pair": self.text_pair, "label": self.label}
        if not isinstance(self.label, str):
            return from_table(table, **columns)
        if not all(isinstance(cell, str) for cell in table[self.label]):
            table[self.label] = self._joined(table)
        elif self.label_separator and self._are_switches(
            cells := split_labels(table[self.label], self.label_separator)
        ):
            table[self.label] = cells  # such as "1|0"
            table[self.label] = self._joined(table)
        if self.label_separator is not None:
            sets = split_labels(table[self.label], self.label_separator)
            labels = distinct_labels(label for labels_of_row in sets for label in labels_of_row)
            return from_table(table, **columns, labels=labels, separator=self.label_separator)
        check_labels_given(table, self.label)
        return from_table(table, **columns, labels=distinct_labels(table[self.label]))

    def for_training(self, train: LabelledText) -> tuple[Self, LabelledText]:
        task, train = super().for_training(train)
        if self.labels is not None:
            train = train.with_labels(self.labels)
        count = train.labels.shape[1] if train.multi_label else int(train.labels.max()) + 1
        labels = list(train.label_names or map(str, range(count)))
        if train.multi_label and not labels:
            raise ValueError(f"{train.path or 'the examples'}: expected a text with a label. Received: none has one")
        if not train.multi_label and len(labels) < 2:
            raise ValueError(f"A classifier needs at least two different labels. Received: {labels}")
        return dataclasses.replace(task, labels=labels), train

    def settings(self, train: LabelledText) -> dict[str, Any]:
        task, train = self.for_training(train)
        thresholds = {} if self.thresholds is None else {"thresholds": self.thresholds}
        head = {"labels": list(task.labels), "num_labels": len(task.labels), "multi_label": train.multi_label}
        return super().settings(train) | head | thresholds

    def for_model(self, examples: LabelledText, settings: Mapping[str, Any]) -> LabelledText:
        labels = settings.get("labels")
        if "f1" in self.metrics and labels and len(labels) != 2:
            raise ValueError(
                f"Classification: the metric 'f1' is of two labels, here there are {len(labels)}, "
                f"{shown_labels(labels)}: use 'macro_f1'. Received: metrics={self.metrics!r}"
            )
        return examples.with_labels(labels) if labels else examples

    def _views(self, pipeline, examples, predictions, scores):
        from kbert.inspection.examples.prediction_views import label_views, multi_label_views

        if examples.multi_label:
            thresholds = pipeline.answers.thresholds or 0.5
            by_label = scores["labels"]
            return multi_label_views(predictions, examples.labels, by_label, thresholds, *example_columns(examples))
        return label_views(predictions, examples.labels, scores["labels"], *example_columns(examples))


@dataclasses.dataclass(frozen=True)
class Regression(TextTask):
    """Predicts a number for each text or pair of texts, trained with squared error (STS-B in section 4.1 of the paper).

    Its model answers ``score``. It is also served as ``regress`` on tf.Examples.

    Args:
        text, text_separator, label, text_pair, window_pooling, doc_stride, pair: see `Classification`. The labels are
            numbers.
        metrics: one or more of ``pearson, spearman, mean_squared_error, mean_absolute_error``. The first one chooses
            the best epoch, by the highest correlation or the lowest error.

    Raises:
        ValueError: `window_pooling` with pairs, or unknown metrics.

    Example::

        task = Regression(text="sentence1", text_pair="sentence2", label="score")
    """

    metrics: tuple[str, ...] = OWN_METRICS["regression"]

    name = "regression"
    model_name = "BertRegressor"
    answer_names = {"score": "RegressionAnswers"}
    heads = ("regressor_head",)

    def __post_init__(self):
        super().__post_init__()
        self._check_metrics(NUMBER_METRICS)

    def parts(
        self, model: "BertModel", tokenizer: "BertTokenizer", sequence_length: int
    ) -> "tuple[Preprocessor, Answers]":
        from kbert.answers.labels import RegressionAnswers

        return self.preprocessor(tokenizer, sequence_length), RegressionAnswers(self.window_pooling, name="answers")

    @classmethod
    def signatures(cls, pipeline: "Pipeline") -> dict[str, TaskSignature]:
        plain = answering(pipeline)

        def regress(batch, inputs):
            return {"outputs": plain.finish(batch, inputs)["score"]}

        return {"regress": dataclasses.replace(plain, finish=regress, kind="regress")}

    def _from_table(self, table):
        return from_table(self._with_texts(table), text=self.text, text_pair=self.text_pair, label=self.label)

    def _views(self, pipeline, examples, predictions, scores):
        from kbert.inspection.examples.prediction_views import number_views

        return number_views(predictions, examples.labels, *example_columns(examples))
