"""A span extractor's answers to questions, and their official scores.

Shapes: n questions, k entries of an n-best list.
"""

import dataclasses

import numpy as np

from kbert.answers.spans import SpanAnswers
from kbert.pipelines.pipeline import Pipeline
from kbert.preprocessing.buckets import longest_first, text_sizes
from kbert.tasks.predict_scores import check_scores
from kbert.tasks.span.metrics import null_threshold, squad_scores
from kbert.tasks.span.prediction_files import write_squad_files
from kbert.tasks.span.questions import Questions
from kbert.training.progress import PredictionProgress

_NEVER_NULL = 1e30  # a threshold that no odds reach: "no answer" is listed, but never returned


@dataclasses.dataclass(frozen=True, eq=False)
class SpanEvaluation:
    """A model's answers to questions without a threshold, and their scores with one."""

    questions: Questions
    best_answers: np.ndarray  # str [n], the best span, as if there were no "no answer"
    places: np.ndarray  # int32 [n, 2], its start and end in the context, -1 if there is none
    odds: np.ndarray  # float32 [n], null_score - score
    n_best: tuple[np.ndarray, np.ndarray]  # str [n, k] and float32 [n, k]
    threshold: float | None  # None: every question is answered
    scores: dict[str, float]  # of `squad_scores`

    @property
    def answers(self) -> np.ndarray:
        """str [n]: the answers given, "" for none."""
        if self.threshold is None:
            return self.best_answers
        return np.where(self.odds > np.float32(self.threshold), "", self.best_answers)

    def write(self, directory) -> None:
        """Writes predictions.json, nbest.json and null_odds.json."""
        write_squad_files(directory, self.questions, self.answers, self.odds, self.n_best)


def evaluate_questions(
    pipeline, questions: Questions, *, version="2.0", threshold=None, batch_size=32
) -> SpanEvaluation:
    """Answers every question and scores the answers.

    The questions are answered longest first, with windows of similar length together (`run_in_length_buckets`); neither
    changes an answer.

    Args:
        pipeline: of a span extractor; its own threshold is not used.
        questions: with their right answers.
        version: "1.1" or "2.0": the version of the rules.
        threshold: of "no answer"; None: every question is answered; "best": the one with the best F1 on these
            questions, for a dev set.
        batch_size: questions at a time.
    """
    best, places, odds, n_best = _answer(pipeline, questions, batch_size, with_null=threshold is not None)
    if threshold == "best":
        threshold = null_threshold(questions.answers, best, odds, version)
    scores = squad_scores(
        questions.answers, best, odds=None if threshold is None else odds, threshold=threshold or 0.0, version=version
    )
    return SpanEvaluation(questions, best, places, odds, n_best, threshold, scores)


def _answer(pipeline, questions, batch_size, with_null):
    limits = pipeline.answers.n_best, pipeline.answers.max_answer_length, _NEVER_NULL if with_null else None
    always = Pipeline(pipeline.preprocessor, pipeline.model, SpanAnswers(*limits, name="answers"))
    columns = questions.columns
    order, place = longest_first(text_sizes(columns.values()))
    sorted_columns = {name: [column[row] for row in order] for name, column in columns.items()}
    progress = PredictionProgress(len(order), batch_size)
    answers = always.predict(sorted_columns, batch_size=batch_size, verbose=0, callbacks=[progress])
    answers = {name: values[place] for name, values in answers.items()}
    check_scores(np.stack([answers["score"], answers["null_score"]], axis=1))
    return (
        answers["answer"],
        np.stack([answers["start"], answers["end"]], axis=1),
        answers["null_score"] - answers["score"],
        (answers["n_best_answers"], answers["n_best_scores"]),
    )
