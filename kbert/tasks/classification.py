"""Classification: texts or pairs → label and probabilities.

Shapes: B batch, N labels.
"""

import dataclasses
from typing import Annotated

from kbert.checks import shown
from kbert.options import Bounds
from kbert.pipelines.task_signature import answering
from kbert.tasks.in_memory import read_columns
from kbert.tasks.labelled_text import (
    LabelledText,
    check_labels_given,
    distinct_labels,
    from_table,
    shown_labels,
    split_labels,
)
from kbert.tasks.metrics import CLASS_METRICS, MULTI_LABEL_METRICS, OWN_METRICS
from kbert.tasks.task import of_model
from kbert.tasks.text_task import TextTask, example_columns


@dataclasses.dataclass(frozen=True)
class Classification(TextTask):
    """Predicts a label, or any number of labels, for each text or pair of texts (section 4.1 of the paper).

    Its model answers ``label`` and ``probabilities``. It is also served as ``classify`` on tf.Examples.

    Args:
        text, label: names of the columns of a table.
        text_pair: name of the second text's column, for pairs.
        window_pooling: "mean" or "max" divides texts that do not fit into windows, and pools the answers of the
            windows. None truncates them.
        doc_stride: with `window_pooling`, the number of tokens from one window to the next.
        pair: whether the texts of a model come in pairs. A training finds it in its examples.
        metrics: one or more of ``accuracy, macro_f1, matthews`` and, with two labels, ``f1`` of the second one. With
            `label_separator`, one or more of ``micro_f1, macro_f1, subset_accuracy``. The first one chooses the best
            epoch. None: all of them but ``f1``.
        label_separator: what separates the labels of a text, such as ``"|"``. A text may then have several labels, or
            none, and each label is predicted independently (``BertClassifier(multi_label=True)``). In memory, the
            labels of a text may also be a list. None: one label per text.
        labels: all labels, in the order of the logits. None: the model's labels, or the sorted labels of the training
            examples where the model has none.
        thresholds: with several labels a text, the probability that each label has to exceed. None: 0.5 each.

    Raises:
        ValueError: `window_pooling` with pairs, an empty `label_separator`, or unknown metrics. `for_model`, and so
            `kbert.finetune` and `kbert.evaluate`, refuse ``f1`` unless there are two labels.

    Example::

        task = Classification(text="review", label="stars")
        train, dev = task.read("reviews.csv").split(0.1)
    """

    metrics: tuple[str, ...] | None = None
    label_separator: str | None = None
    labels: tuple[str, ...] | None = of_model(None)
    thresholds: tuple[Annotated[float, Bounds("(0, 1)")], ...] | None = of_model(None, can_be_off=True)

    name = "classification"
    reading = ("text", "text_pair", "label", "label_separator")
    heads = ("classifier_head",)

    def __post_init__(self):
        super().__post_init__()
        if self.label_separator == "":
            raise ValueError("Classification: `label_separator` must not be empty. Received: ''")
        if self.metrics is None:
            own = OWN_METRICS["classification" if self.label_separator is None else "multi_label"]
            object.__setattr__(self, "metrics", own)
        self._check_metrics(CLASS_METRICS if self.label_separator is None else MULTI_LABEL_METRICS)

    @classmethod
    def model_class(cls):
        from kbert.models.classifier import BertClassifier

        return BertClassifier

    def parts(self, model, tokenizer, sequence_length):
        from kbert.answers.classification import ClassificationAnswers
        from kbert.answers.multi_label import MultiLabelAnswers

        labels = self.labels_of(model)
        if model.multi_label:
            answers = MultiLabelAnswers(labels, self.thresholds, self.window_pooling, name="answers")
        elif self.thresholds is not None:
            raise ValueError("build_pipeline: `thresholds` are a multi-label classifier's (multi_label=True).")
        else:
            answers = ClassificationAnswers(labels, self.window_pooling, name="answers")
        return self.preprocessor(tokenizer, sequence_length), answers

    @classmethod
    def exported_answers(cls, labels, outputs):
        from kbert.answers.classification import ClassificationAnswers
        from kbert.answers.multi_label import MultiLabelAnswers

        return MultiLabelAnswers(labels) if "is_on" in outputs else ClassificationAnswers(labels)

    @classmethod
    def signatures(cls, pipeline):
        import tensorflow as tf

        labels = list(pipeline.answers.labels)
        plain = answering(pipeline)

        def classify(batch, inputs):
            scores = plain.finish(batch, inputs)["probabilities"]  # [B, N]
            classes = tf.tile(tf.constant([labels]), [tf.shape(scores)[0], 1])  # [B, N]; cut by a server into requests
            return {"classes": classes, "scores": scores}

        return {"classify": dataclasses.replace(plain, finish=classify, kind="classify")}

    def from_memory(self, data):
        columns = read_columns(data, self.table_columns)
        cells = columns[self.label]
        columns[self.label] = [self._joined(cell, row) for row, cell in enumerate(cells)]
        return super().from_memory(columns)

    def _joined(self, cell, row):
        """A list of labels in memory as a cell of a file would have it."""
        if not isinstance(cell, list):
            return cell
        labels = [str(label).strip() for label in cell]
        separator = self.label_separator
        if separator is None:
            raise ValueError(
                f"row {row}: expected one label in {self.label!r}. Received: {shown(cell)}. For several labels a text "
                'give Classification(label_separator="|")'
            )
        if len(set(labels)) < len(labels) or any(separator in label or not label for label in labels):
            raise ValueError(
                f"row {row}: expected in {self.label!r} names of labels that differ and do not contain "
                f"`label_separator`, {separator!r}. Received: {shown(cell)}"
            )
        return separator.join(labels)

    def _from_table(self, table):
        columns = {"text": self.text, "text_pair": self.text_pair, "label": self.label}
        if self.label_separator is not None:
            found = split_labels(table[self.label], self.label_separator)
            labels = distinct_labels(label for some in found for label in some)
            return from_table(table, **columns, labels=labels, separator=self.label_separator)
        check_labels_given(table, self.label)
        return from_table(table, **columns, labels=distinct_labels(table[self.label]))

    def for_training(self, train):
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

    def settings(self, train):
        task, train = self.for_training(train)
        thresholds = {} if self.thresholds is None else {"thresholds": self.thresholds}
        head = {"labels": list(task.labels), "num_labels": len(task.labels), "multi_label": train.multi_label}
        return super().settings(train) | head | thresholds

    def for_model(self, examples: LabelledText, settings) -> LabelledText:
        labels = settings.get("labels")
        if "f1" in self.metrics and labels and len(labels) != 2:
            raise ValueError(
                f"Classification: the metric 'f1' is of two labels, here there are {len(labels)}, "
                f"{shown_labels(labels)}: use 'macro_f1'. Received: metrics={self.metrics!r}"
            )
        return examples.with_labels(labels) if labels else examples

    def _views(self, pipeline, examples, predictions):
        from kbert.inspection.examples.prediction_views import label_views, multi_label_views

        names = [str(label) for label in pipeline.answers.labels]
        if examples.multi_label:
            thresholds = pipeline.answers.thresholds or 0.5
            return multi_label_views(predictions, examples.labels, names, thresholds, *example_columns(examples))
        return label_views(predictions, examples.labels, names, *example_columns(examples))
