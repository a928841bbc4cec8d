"""The common base of the tasks with one answer a text: for a text, a pair of texts, or a long document."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from kbert.inspection.markdown import escape
from kbert.inspection.view import View
from kbert.options import Count
from kbert.tasks.in_memory import text_table
from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.metrics import LOWER_IS_BETTER, metrics_of
from kbert.tasks.table import Table, read_table
from kbert.tasks.task import Evaluation, Task, TrainingData, columns_of_labels, of_model

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

    text: str = "text"
    label: str = "label"
    text_pair: str | None = None
    window_pooling: Literal["max", "mean"] | None = of_model(None, can_be_off=True)
    doc_stride: Count = of_model(128)
    pair: bool = of_model(False)
    metrics: tuple[str, ...] = ()

    lower_is_better = LOWER_IS_BETTER

    def __post_init__(self):
        super().__post_init__()
        if self.window_pooling and self.text_pair:
            raise ValueError(
                f"{type(self).__name__}: windows are of single texts. Received: window_pooling="
                f"{self.window_pooling!r} and text_pair={self.text_pair!r}"
            )

    def preprocessor(self, tokenizer, sequence_length: int):
        """Truncates texts or pairs, or with `window_pooling` divides long texts into windows."""
        if self.window_pooling is None:
            from kbert.preprocessing.text_preprocessor import TextPreprocessor

            return TextPreprocessor(tokenizer, sequence_length, self.pair, name="preprocessor")
        from kbert.preprocessing.document_preprocessor import DocumentPreprocessor

        return DocumentPreprocessor(tokenizer, sequence_length, self.doc_stride, name="preprocessor")

    def check_options(self, given):
        if "doc_stride" in given and self.window_pooling is None:
            raise ValueError(
                "`doc_stride` goes with `window_pooling`, without which texts are truncated. "
                f"Received: doc_stride={self.doc_stride}, window_pooling=None"
            )
        if self.pair and self.window_pooling is not None:
            raise ValueError("`window_pooling` is for single texts. Received: pair=True")

    @property
    def table_columns(self) -> list[str]:
        """The columns of a table that are read, in the order of a row given as a tuple."""
        return [name for name in (self.text, self.text_pair, self.label) if name is not None]

    def read(self, path) -> LabelledText:
        return self._from_table(read_table(path, self.table_columns))

    def from_memory(self, data) -> LabelledText:
        return self._from_table(text_table(data, self.table_columns))

    def _from_table(self, table: Table) -> LabelledText:
        raise NotImplementedError

    def for_training(self, train):
        if self.pair and not train.pair:
            raise ValueError(
                f"{type(self).__name__}: `pair` needs a second text in the examples, the column `text_pair`. Received: "
                "single texts"
            )
        return dataclasses.replace(self, pair=train.pair), train

    def settings(self, train) -> dict[str, Any]:
        stride = {"doc_stride": self.doc_stride} if self.window_pooling else {}
        return {"pair": train.pair, "window_pooling": self.window_pooling, **stride}

    def check_examples(self, pipeline, examples):
        labels = {True: "several labels a text (label_separator)", False: "one label a text"}
        texts = {True: "pairs of texts", False: "single texts"}
        for kinds, trained, given in (
            (labels, pipeline.model.multi_label, examples.multi_label),
            (texts, pipeline.preprocessor.pair, examples.pair),
        ):
            if trained != given:
                raise ValueError(f"evaluate: this model was trained on {kinds[trained]}. Received: {kinds[given]}")

    def check_class_weight(self, class_weight, pipeline, train):
        from kbert.tasks.training_data import class_weights

        class_weights(class_weight, pipeline, train)  # raises

    def with_texts(self, train, columns):
        texts, pairs = columns["text"], columns.get("text_pair")
        return dataclasses.replace(
            train,
            texts=[*train.texts, *texts],
            text_pairs=pairs and [*train.text_pairs, *pairs],
            labels=np.concatenate([train.labels, np.zeros((len(texts), *train.labels.shape[1:]), train.labels.dtype)]),
            lines=(),
        )

    def teacher_answers(self, teacher, pipeline, examples, batch_size):
        from kbert.tasks.scores import document_scores, predict_scores

        self.check_examples(teacher, examples)
        (name,) = pipeline.model.output
        if teacher.preprocessor.makes_windows:
            answers = document_scores(teacher, examples.texts, batch_size)
        else:
            columns = examples.columns
            answers = predict_scores(teacher.model, teacher.preprocessor, columns, batch_size=batch_size)
        if name == "logits":
            answers = answers[:, columns_of_labels(pipeline.answers.labels, teacher.answers.labels)]
            off = np.maximum(1.0 - answers, _LEAST) if examples.multi_label else 1.0
            answers = np.log(np.maximum(answers, _LEAST) / off)
        return {name: answers.astype("float32")}

    def training_data(self, pipeline, train, *, class_weight=None, teacher=None, **batches) -> TrainingData:
        from kbert.tasks import training_data

        preprocessor = pipeline.preprocessor
        num_labels = pipeline.model.num_labels
        weights = None
        if class_weight is not None:
            weights = training_data.class_weights(class_weight, pipeline, train)
        if not preprocessor.makes_windows:
            make_dataset = functools.partial(
                training_data.training_dataset,
                train,
                preprocessor,
                num_labels=num_labels,
                weights=weights,
                targets=teacher and teacher.beside(training_data.labels_by_output(train)),
                **batches,
            )
            tokens = training_data.real_tokens(train, preprocessor)
            return TrainingData(len(train), len(train), tokens, make_dataset)
        store, labels = training_data.document_windows(train, preprocessor, num_labels)
        weights = None if weights is None else weights[store.rows]
        if teacher is not None:  # whose answers are to whole texts
            outputs = {name: answers[store.rows] for name, answers in teacher.outputs.items()}
            labels = dataclasses.replace(teacher, outputs=outputs).beside(labels, store.rows)
        make_dataset = functools.partial(training_data.window_dataset, store, labels, weights=weights, **batches)
        return TrainingData(len(store), len(store), float(store.lengths.mean()), make_dataset)

    def evaluate(self, pipeline, examples, *, batch_size=32, static=False, choose=False) -> Evaluation:
        from kbert.tasks.scores import evaluate, evaluate_documents

        if pipeline.preprocessor.makes_windows:
            scores, predictions = evaluate_documents(pipeline, examples, self.metrics, batch_size=batch_size)
        else:
            scores, predictions = evaluate(
                pipeline.model,
                pipeline.preprocessor,
                examples,
                self.metrics,
                batch_size=batch_size,
                static=static,
                thresholds=pipeline.answers.thresholds,
            )
        return Evaluation(scores, predictions, show=lambda: self._views(pipeline, examples, predictions))

    def _views(self, pipeline, examples, predictions) -> list[View]:
        """What TensorBoard shows of predictions."""
        return []

    def baseline_scores(self, answer, examples) -> dict[str, float]:
        answers = np.broadcast_to(answer, examples.labels.shape)
        return {name: metrics_of(examples.labels)[name](examples.labels, answers) for name in self.metrics}
