"""Tagging: texts → words with their tags, or entities."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from kbert.checks import shown
from kbert.options import Count
from kbert.tasks.tagging.readers import (
    TaggedText,
    check_tags,
    learn_tags,
    read_tagged,
)
from kbert.tasks.tagging.tag_scheme import entity_scores, tag_scores
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
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.preprocessing.preprocessor import Preprocessor
    from kbert.text.tokenizer import BertTokenizer

_METRICS = ("f1", "precision", "recall", "accuracy")
_OF_PLAIN = ("accuracy",)


@dataclasses.dataclass(frozen=True)
class Tagging(Task):
    """Predicts a tag for each word, such as named entities (section 5.3 of the paper).

    Its model answers ``words`` and ``tags`` of a text, or its ``entities``. A served model offers both.

    Args:
        scheme: the tagging scheme of entities: "iob1", "iob2" (also called BIO), "bioes" or "bilou". "plain" takes tags
            such as DET as labels of their words. None: recognised, as plain if no tag has a prefix like B- or I-.
        tag_column: the number of the tag's column in CoNLL files, from 0. Negative: from the end. None: the last, in a
            .conllu the fourth, UPOS.
        context: "document" reads words with as much of their document as fits in a window, "sentence" only with their
            sentence.
        doc_stride: tokens from one window to the next, at most half a window. None: half a window.
        labels: all tags, in the order of the logits. None: the tags of the training examples.
        tagging_output: what a model answers with: the "tags" of all words, or "entities".
        metrics: one or more of ``f1, precision, recall`` (of entities) and ``accuracy`` (of tags). The first one
            chooses the best epoch. Plain tags are scored by ``accuracy``.

    Raises:
        ValueError: an unknown scheme or context, or unknown metrics.

    Example::

        task = Tagging()
        train, dev = task.read("eng.train"), task.read("eng.testa")
    """

    scheme: Literal["iob1", "iob2", "bioes", "bilou", "plain"] | None = None
    tag_column: int | None = None
    context: Literal["document", "sentence"] = "document"
    doc_stride: Count | None = of_model(None)
    labels: tuple[str, ...] | None = of_model(None)
    tagging_output: Literal["tags", "entities"] = of_model("tags")
    metrics: tuple[str, ...] = _METRICS

    name = "tagging"
    model_name = "BertTagger"
    answer_names = {"tags": "TagAnswers", "entities": "EntityAnswers"}
    reading = ("scheme", "tag_column", "context")
    heads = ("tagger_head",)

    def __post_init__(self):
        super().__post_init__()
        self._check_metrics(_METRICS)

    def parts(
        self, model: "BertModel", tokenizer: "BertTokenizer", sequence_length: int
    ) -> "tuple[Preprocessor, Answers]":
        from kbert.answers.words import EntityAnswers, TagAnswers
        from kbert.preprocessing.window_preprocessors import TaggingPreprocessor

        half = _half(sequence_length)  # of a stored stride that was made for longer windows only so much is left
        stride = half if self.doc_stride is None else min(self.doc_stride, half)
        kind = EntityAnswers if self.tagging_output == "entities" else TagAnswers
        preprocessor = TaggingPreprocessor(tokenizer, sequence_length, stride, name="preprocessor")
        return preprocessor, kind(self.labels_of(model), name="answers")

    @classmethod
    def signatures(cls, pipeline: "Pipeline") -> dict[str, TaskSignature]:
        from kbert.answers.words import EntityAnswers, TagAnswers

        own = pipeline.answers
        answers = {
            kind: own if isinstance(own, kind) else kind(list(own.labels)) for kind in (TagAnswers, EntityAnswers)
        }
        return {
            "tag": answering(pipeline, answers[TagAnswers]),
            "entities": answering(pipeline, answers[EntityAnswers]),
        }

    def prediction_options(self) -> dict[str, Any]:
        """Entities, unless every word has a tag, as a part of speech."""
        return {"tagging_output": "entities"} if self.labels is None or "O" in self.labels else {}

    def read(self, data: Any) -> TaggedText:
        return _with_tag_names(read_tagged(data, tag_column=self.tag_column, scheme=self.scheme))

    def for_training(self, train: TaggedText) -> tuple[Self, TaggedText]:
        tags = self.labels or train.tag_names or learn_tags(train)
        if len(tags) < 2:
            expected = "two different tags" if train.plain else "one entity"
            raise ValueError(
                f"{train.path or 'the tagged text'}: expected at least {expected}. Received: only {tags[0]}"
            )
        if self.labels:
            check_tags(train, tags)
        return dataclasses.replace(self, labels=tuple(tags), metrics=self._metrics_of(train)), train

    def _metrics_of(self, tagged: TaggedText) -> tuple[str, ...]:
        """The metrics that suit the tags: entities have all, plain tags accuracy."""
        if not tagged.plain:
            return self.metrics
        if self.metrics not in (_METRICS, _OF_PLAIN):
            raise ValueError(
                f"Tagging: tags without B- and I- are scored by {_OF_PLAIN[0]!r}. Received: metrics={self.metrics!r}"
            )
        return _OF_PLAIN

    def check_examples(self, pipeline: "Pipeline", examples: TaggedText) -> None:
        self._metrics_of(examples)
        labels = pipeline.answers.labels
        tags = set().union(*examples.tags)
        if examples.plain and not tags - {"O"} & set(labels):
            raise ValueError(
                f"Tagging: the examples have none of the model's tags, {shown(list(labels))}. Received: "
                f"{shown(sorted(tags))}"
            )

    def settings(self, train: TaggedText) -> dict[str, Any]:
        task, _ = self.for_training(train)
        return super(Tagging, task).settings(train) | {"labels": list(task.labels), "num_labels": len(task.labels)}

    def check_training(self, pipeline: "Pipeline", train: TaggedText, class_weight: Any) -> None:
        super().check_training(pipeline, train, class_weight)
        sequence_length = pipeline.preprocessor.sequence_length
        half = _half(sequence_length)
        if self.doc_stride and self.doc_stride > half:
            raise ValueError(
                f"`doc_stride` is at most half a window, {half} of {sequence_length} tokens. "
                f"Received: {self.doc_stride}"
            )

    def check_dev(self, dev: TaggedText, settings: Mapping[str, Any]) -> None:
        check_tags(dev, settings["labels"])

    def with_texts(self, train: TaggedText, columns: Mapping[str, list]) -> TaggedText:
        from kbert.text.words import split_words

        words = [text for text in split_words(columns["text"])[0].to_list() if text]
        words = [[word.decode("utf-8", "replace") for word in text] for text in words]
        last = max(train.documents)
        return dataclasses.replace(
            train,
            words=[*train.words, *words],
            tags=[*train.tags, *([train.tags[0][0]] * len(text) for text in words)],  # any: they are not learned
            documents=[*train.documents, *range(last + 1, last + 1 + len(words))],
            lines=(),
        )

    def teacher_answers(
        self, teacher: "Pipeline", pipeline: "Pipeline", examples: TaggedText, batch_size: int
    ) -> dict[str, np.ndarray]:
        from kbert.tasks.tagging.evaluation import TaggedWindows, word_logits

        labels = list(teacher.answers.labels)
        columns = columns_of_labels(pipeline.answers.labels, labels)
        windows = TaggedWindows.from_tagged_text(examples, teacher.preprocessor, labels, self.context)
        return {"logits": word_logits(teacher.model, windows, batch_size)[:, columns]}

    def training_data(
        self, pipeline: "Pipeline", train: TaggedText, *, teacher: TeacherAnswers | None = None, **batches
    ) -> TrainingData:
        from kbert.tasks.tagging.evaluation import TaggedWindows, tagged_rows
        from kbert.tasks.training_data import as_training_data

        windows = TaggedWindows.from_tagged_text(train, pipeline.preprocessor, pipeline.answers.labels, self.context)
        targets = None
        if teacher is not None:
            sentences = np.repeat(np.arange(len(train)), [len(words) for words in train.words])
            targets = teacher.beside({"logits": windows.word_labels}, sentences)["logits"]
        return as_training_data(tagged_rows(windows, targets), windows.real_tokens, **batches)

    def evaluate(
        self,
        pipeline: "Pipeline",
        examples: TaggedText,
        *,
        batch_size: int = 32,
        static: bool = False,
        choose: bool = False,
    ) -> Evaluation:
        from kbert.tasks.tagging.evaluation import entity_views, evaluate_tagger, tag_views, write_predictions

        scores, predicted = evaluate_tagger(
            pipeline.model,
            pipeline.preprocessor,
            examples,
            list(pipeline.answers.labels),
            context=self.context,
            batch_size=batch_size,
        )

        def write(directory):
            write_predictions(pathlib.Path(directory) / "predictions.txt", examples, predicted)

        views = tag_views if examples.plain else entity_views
        return Evaluation(scores, predicted, write=write, show=lambda: views(examples, predicted, scores))

    def baseline_scores(self, answer: str, examples: TaggedText) -> dict[str, float]:
        score = tag_scores if examples.plain else entity_scores
        scores = score(examples.tags, [[answer] * len(tags) for tags in examples.tags])
        return {name: scores[name] for name in self._metrics_of(examples)}


def _half(sequence_length: int) -> int:
    """The most tokens from one window to the next: windows overlap by at least half."""
    return max(1, (sequence_length - 2) // 2)


def _with_tag_names(tagged):
    """Adds the tag names before sentences are held out, since a rare type may occur only in these."""
    return dataclasses.replace(tagged, tag_names=learn_tags(tagged))
