"""Tagging: texts → words with their tags, or entities."""

import dataclasses
import functools
import pathlib

from kbert.answers.entities import EntityAnswers
from kbert.answers.tags import TagAnswers
from kbert.models.tagger import BertTagger
from kbert.pipelines.task_pipeline import TaskPipeline
from kbert.pipelines.task_signature import answering
from kbert.preprocessing.tagging_preprocessor import TaggingPreprocessor
from kbert.tasks.in_memory import column_names, read_columns
from kbert.tasks.tagging.evaluation import entity_views, evaluate_tagger, write_predictions
from kbert.tasks.tagging.metrics import entity_scores
from kbert.tasks.tagging.readers import read_tagged, spans_from_memory, tagged_from_memory
from kbert.tasks.tagging.tag_scheme import SCHEMES
from kbert.tasks.tagging.tagged_text import CONTEXTS, check_tags, learn_tags
from kbert.tasks.tagging.windows import TaggedWindows, tagging_dataset
from kbert.tasks.task import Evaluation, Task, TrainingData

_OUTPUTS = {"tags": TagAnswers, "entities": EntityAnswers}


class TaggingPipeline(TaskPipeline):
    """``words`` and ``tags`` of a text, or its ``entities``; a served model offers both."""

    task = "tagging"
    model_class = BertTagger
    options = ("labels", "doc_stride", "tagging_output")
    heads = ("tagger_head",)
    prediction_options = {"tagging_output": "entities"}

    def parts(self, model, tokenizer, settings):
        # Windows overlap by at least half: the stride for questions, which is stored by default, would give no overlap.
        stride = min(settings["doc_stride"], max(1, (settings["sequence_length"] - 2) // 2))
        preprocessor = TaggingPreprocessor(tokenizer, settings["sequence_length"], stride, name="preprocessor")
        return preprocessor, _OUTPUTS[settings["tagging_output"]](self.labels(model, settings), name="answers")

    def exported_answers(self, labels, outputs):
        return EntityAnswers(labels) if "entities" in outputs else TagAnswers(labels)

    def signatures(self, pipeline):
        own = pipeline.answers
        answers = {kind: own if isinstance(own, kind) else kind(list(own.labels)) for kind in _OUTPUTS.values()}
        return {
            "tag": answering(pipeline, answers[TagAnswers]),
            "entities": answering(pipeline, answers[EntityAnswers]),
        }


PIPELINE = TaggingPipeline()


_METRICS = ("f1", "precision", "recall", "accuracy")


@dataclasses.dataclass(frozen=True)
class Tagging(Task):
    """Predicts a tag for each word, such as named entities (section 5.3 of the paper).

    Args:
        scheme: the tagging scheme: "iob1", "iob2" (also called BIO), "bioes" or "bilou". None: recognised.
        tag_column: the number of the tag's column in CoNLL files, from 0; negative: from the end.
        context: "document": words are read with as much of their document as fits in a window; "sentence": only with
            their sentence.
        doc_stride: tokens from one window to the next, at most half a window. None: half a window.
        metrics: one or more of ``f1, precision, recall`` (of entities) and ``accuracy`` (of tags); the first one
            chooses the best epoch.

    Raises:
        ValueError: an unknown scheme or context, unknown metrics.

    Example::

        task = Tagging()
        train, dev = task.read("eng.train"), task.read("eng.testa")
    """

    scheme: str | None = None
    tag_column: int = -1
    context: str = "document"
    doc_stride: int | None = None
    metrics: tuple[str, ...] = _METRICS

    name = "tagging"

    def __post_init__(self):
        for name, allowed in (("scheme", (None, *SCHEMES)), ("context", CONTEXTS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"Tagging: `{name}` must be one of {allowed}. Received: {getattr(self, name)!r}")
        self._check_metrics(_METRICS)

    def read(self, path):
        return _with_tag_names(read_tagged(path, tag_column=self.tag_column, scheme=self.scheme))

    def from_memory(self, data):
        names = column_names(data)
        if {"text", "spans"} <= set(names):
            columns = read_columns(data, ["text", "spans"])
            return _with_tag_names(spans_from_memory(columns["text"], columns["spans"]))
        words = "tokens" if "tokens" in names and "words" not in names else "words"
        tags = "ner_tags" if "ner_tags" in names and "tags" not in names else "tags"
        columns = read_columns(data, [words, tags], ["document"])
        tagged = tagged_from_memory(columns[words], columns[tags], columns.get("document"), self.scheme)
        return _with_tag_names(tagged)

    def settings(self, train):
        tags = train.tag_names or learn_tags(train)
        if len(tags) < 2:
            raise ValueError(f"{train.path or 'the tagged text'}: expected at least one entity. Received: only O")
        return {"labels": list(tags), "num_labels": len(tags)}

    def pipeline_options(self, sequence_length):
        half = max(1, (sequence_length - 2) // 2)
        if self.doc_stride and self.doc_stride > half:
            raise ValueError(
                f"`doc_stride` is at most half a window, {half} of {sequence_length} tokens. "
                f"Received: {self.doc_stride}"
            )
        return {"doc_stride": self.doc_stride or half}

    def check_dev(self, dev, settings):
        check_tags(dev, settings["labels"])

    def training_data(self, pipeline, train, **batches):
        windows = TaggedWindows.from_tagged_text(train, pipeline.preprocessor, pipeline.answers.labels, self.context)
        make_dataset = functools.partial(tagging_dataset, windows, **batches)
        return TrainingData(len(windows), len(windows), windows.real_tokens, make_dataset)

    def evaluate(self, pipeline, examples, *, batch_size=32, static=False, choose=False):
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

        return Evaluation(scores, predicted, write=write, show=lambda: entity_views(examples, predicted, scores))

    def baseline_scores(self, answer, examples):
        scores = entity_scores(examples.tags, [[answer] * len(tags) for tags in examples.tags])
        return {name: scores[name] for name in self.metrics}


def _with_tag_names(tagged):
    """Before sentences are held out: a rare type may occur only in these."""
    return dataclasses.replace(tagged, tag_names=learn_tags(tagged))


TASK = Tagging
