"""Questions and contexts → answers that are spans of the contexts."""

import dataclasses
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np

from kbert.checks import Bounds
from kbert.options import Count
from kbert.tasks.span.metrics import squad_scores
from kbert.tasks.span.questions import Questions, read_questions, read_squad
from kbert.tasks.task import LONG_TEXT, SENTENCE, Evaluation, Task, TeacherAnswers, TrainingData, of_model

if TYPE_CHECKING:
    from kbert.answers.answers import Answers
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.preprocessing.preprocessor import Preprocessor
    from kbert.text.tokenizer import BertTokenizer

_LOGGER = logging.getLogger("kbert")
_METRICS = ("f1", "exact")


@dataclasses.dataclass(frozen=True)
class SpanExtraction(Task):
    """Answers questions with spans of a text (sections 4.2 and 4.3 of the paper).

    Its model answers ``answer``, its position in the context, and the n-best list.

    Args:
        version: "1.1" if every question has an answer. "2.0" if some have none: the threshold for "no answer" is then
            chosen on the dev set and stored with the model. None: recognised from the training examples.
        doc_stride: tokens from one window of a long text to the next.
        max_query_length: the maximum number of tokens of a question.
        max_answer_length: the maximum number of tokens of an answer.
        n_best: the number of starts and ends of a window that are combined, and of answers listed.
        null_threshold: by how much the score of "no answer" must exceed the best answer's. A training with questions
            without answers chooses it. None: every question is answered.
        metrics: ``f1``, ``exact`` or both. The first one chooses the best epoch.

    Raises:
        ValueError: an unknown version, or unknown metrics.

    Example::

        task = SpanExtraction(version="2.0")
        train, dev = task.read("train-v2.0.json"), task.read("dev-v2.0.json")
    """

    version: Literal["1.1", "2.0"] | None = None
    doc_stride: Count = of_model(128)
    max_query_length: Count = of_model(64)
    max_answer_length: Count = of_model(30)
    n_best: Count = of_model(20)
    null_threshold: Annotated[float, Bounds("(-1e30, 1e30)")] | None = of_model(None, can_be_off=True)
    metrics: tuple[str, ...] = _METRICS

    name = "span"
    model_name = "BertSpanExtractor"
    answer_names = {"answer": "SpanAnswers"}
    signature = "answer"
    heads = ("span_head",)
    default_length = 384  # as run_squad.py; windows no longer than the step between them would not overlap

    def __post_init__(self):
        super().__post_init__()
        self._check_metrics(_METRICS)

    def parts(
        self, model: "BertModel", tokenizer: "BertTokenizer", sequence_length: int
    ) -> "tuple[Preprocessor, Answers]":
        from kbert.answers.spans import SpanAnswers
        from kbert.preprocessing.window_preprocessors import SpanPreprocessor

        lengths = sequence_length, self.doc_stride, self.max_query_length
        limits = self.n_best, self.max_answer_length, self.null_threshold
        return SpanPreprocessor(tokenizer, *lengths, name="preprocessor"), SpanAnswers(*limits, name="answers")

    @classmethod
    def example_rows(cls, names: tuple[str, ...]) -> list[dict]:
        return [
            {"question": "Where did the committee meet?", "context": SENTENCE},
            {"question": "Who spoke about engines that compute?", "context": LONG_TEXT * 4},
        ]

    @classmethod
    def read_columns(
        cls, path: pathlib.Path, columns: Mapping[str, Sequence[str]], format: str | None
    ) -> dict[str, Sequence] | None:
        """The questions of a file of SQuAD's format, with their ids. None for other files."""
        if path.suffix.lower() != ".json":
            return None
        asked = read_squad(path, labelled=False)
        return {"id": asked.ids, columns["question"][0]: asked.questions, columns["context"][0]: asked.contexts}

    def read(self, data: Any) -> Questions:
        return read_questions(data)

    def version_of(self, questions: Questions) -> str:
        """The task's version, or else "2.0" if some of the questions have no answer and "1.1" if all have one."""
        return self.version or ("1.1" if questions.has_answer.all() else "2.0")

    def for_training(self, train: Questions) -> tuple[Self, Questions]:
        task = dataclasses.replace(self, version=self.version_of(train))
        lost = np.flatnonzero(train.is_lost)
        if len(lost) == len(train):
            raise ValueError(f"{train.path}: expected contexts that hold the answers. Received: none that does")
        if len(lost):
            _LOGGER.warning(
                "%s of %s questions are skipped: their answers are not in their contexts word for word, so no span of "
                "them can be learned (the first: question %s, answer %r)",
                f"{len(lost):,}",
                f"{len(train):,}",
                train.ids[lost[0]],
                train.answers[lost[0]][0],
            )
            train = train.take(np.flatnonzero(~train.is_lost))
        return task, train

    def settings(self, train: Questions) -> dict[str, Any]:
        return self.options()

    def with_texts(self, train: Questions, columns: Mapping[str, list]) -> Questions:
        more = len(columns["question"])
        return dataclasses.replace(
            train,
            ids=[*train.ids, *(f"text {n}" for n in range(more))],
            questions=[*train.questions, *columns["question"]],
            contexts=[*train.contexts, *columns["context"]],
            answers=[*train.answers, *[()] * more],
            answer_starts=np.concatenate([train.answer_starts, np.full(more, -1, "int32")]),
            lines=(),
        )

    def teacher_answers(
        self, teacher: "Pipeline", pipeline: "Pipeline", examples: Questions, batch_size: int
    ) -> dict[str, np.ndarray]:
        from kbert.tasks.scores import predict_windows
        from kbert.tasks.span.evaluation import span_windows

        own, other = pipeline.tokenizer, teacher.tokenizer
        if own.vocabulary != other.vocabulary or own.settings() != other.settings():
            raise ValueError("answers of spans are positions of tokens: expected the vocabulary of the trained model")
        store, _ = span_windows(examples, pipeline.preprocessor)
        return predict_windows(teacher.model, store.lengths, store.batch, store.sequence_length, batch_size)

    def training_data(
        self, pipeline: "Pipeline", train: Questions, *, teacher: TeacherAnswers | None = None, **batches
    ) -> TrainingData:
        from kbert.tasks.span.evaluation import span_windows
        from kbert.tasks.training_data import as_training_data, window_rows

        store, labels = span_windows(train, pipeline.preprocessor)
        labels = labels if teacher is None else teacher.beside(labels, store.rows)
        # As in the original, an epoch has as many windows as there are questions.
        return as_training_data(window_rows(store, labels), store.real_tokens, examples=len(train), **batches)

    def evaluate(
        self,
        pipeline: "Pipeline",
        examples: Questions,
        *,
        batch_size: int = 32,
        static: bool = False,
        choose: bool = False,
    ) -> Evaluation:
        from kbert.tasks.span.evaluation import answer_views, evaluate_questions

        version = self.version_of(examples)
        threshold = pipeline.answers.null_threshold
        if choose:
            threshold = "best" if version == "2.0" else None
        result = evaluate_questions(pipeline, examples, version=version, threshold=threshold, batch_size=batch_size)
        answers = dict(zip(examples.ids, map(str, result.answers), strict=True))
        settings = {"null_threshold": result.threshold} if choose else {}
        return Evaluation(result.scores, answers, settings, result.write, lambda: answer_views(result, version))

    def baseline_scores(self, answer: str, examples: Questions) -> dict[str, float]:
        scores = squad_scores(examples.answers, [answer] * len(examples), version=self.version_of(examples))
        return {name: scores[name] for name in self.metrics}
