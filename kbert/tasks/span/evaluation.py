"""A span extractor's answers to questions, their official scores, and how they are written and shown.

Shapes: n questions, k entries of an n-best list.
"""

import dataclasses
import pathlib

import numpy as np

from kbert.answers.spans import SpanAnswers
from kbert.files import write_json
from kbert.inspection.markdown import escape, mark_spans, markdown_table, percent
from kbert.inspection.view import View
from kbert.pipelines.pipeline import Pipeline
from kbert.preprocessing.buckets import longest_first, text_sizes
from kbert.tasks.scores import check_scores
from kbert.tasks.span.metrics import null_threshold, raw_scores, squad_scores
from kbert.tasks.span.questions import Questions
from kbert.training.callbacks import PredictionProgress


def write_squad_files(directory, questions: Questions, answers, odds, n_best) -> None:
    """Writes ``predictions.json``, ``null_odds.json`` and ``nbest.json`` to a directory.

    They hold {id: answer}, "" for none; {id: number}; and {id: [{"text", "probability"}, …]}, best first. `odds` are
    floats [n], ``null_score - score``. `n_best` are texts and probabilities [n, k], "" and 0 for unused entries.

    ``evaluate-v2.0.py dev.json predictions.json`` (for 1.1 its own script) scores them, with the threshold already
    applied. With ``--na-prob-file null_odds.json`` it also searches for the best threshold. Then give
    ``--na-prob-thresh`` with the threshold of the run: its default is 1.0, but odds are differences of logits.
    """
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    lists = [
        [{"text": str(t), "probability": float(p)} for t, p in zip(*entries, strict=True) if t or p]
        for entries in zip(*n_best, strict=True)
    ]
    files = {
        "predictions.json": [str(answer) for answer in answers],
        "null_odds.json": [float(value) for value in odds],
        "nbest.json": lists,
    }
    for name, values in files.items():
        write_json(directory / name, dict(zip(questions.ids, values, strict=True)))


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
    """Answers every question and scores the answers by the rules of the `version`, "1.1" or "2.0".

    The questions are answered longest first, with windows of similar length together (`run_in_length_buckets`). Neither
    changes an answer.

    The pipeline's own threshold is not used. `threshold` None answers every question. "best" chooses the one with the
    best F1 on these questions, for a dev set.
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


MOST_QUESTIONS = 10  # of a table
_MOST_CHARACTERS = 200
_MARKS = "⟦**gold**⟧ and ❮*answer*❯ in the context"


def answer_views(result, version: str) -> list[View]:
    """Questions with their answer and the gold one, both marked in the context, and the surest wrong answers."""
    questions = result.questions
    answers = [str(answer) for answer in result.answers]
    exact, f1 = raw_scores(questions.answers, answers, version)
    shares = np.array([_probability(answer, result, row) for row, answer in enumerate(answers)])
    sample = np.unique(np.linspace(0, len(answers) - 1, MOST_QUESTIONS).astype("int64"))
    wrong = np.lexsort((-shares, f1 > 0))  # nothing right first, then the surest first
    wrong = wrong[exact[wrong] == 0][:MOST_QUESTIONS]

    def table(rows):
        lines = []
        for row in rows:
            mark = "✓" if exact[row] else f"≈ F1&nbsp;{percent(f1[row])}" if f1[row] else "✗"
            gold = (questions.answer_starts[row], questions.answer_ends[row])
            given = tuple(result.places[row]) if answers[row] else None
            lines.append(
                [
                    mark,
                    escape(questions.questions[row], _MOST_CHARACTERS),
                    _shown_answer(answers[row], result.best_answers[row], shares[row]),
                    _gold(questions.answers[row]),
                    mark_spans(questions.contexts[row], gold, given),
                    escape(questions.source(row)),
                ]
            )
        return markdown_table(["", "question", "answer", "gold", _MARKS, "from"], lines)

    return [
        View(
            "predictions/questions",
            table(sample),
            "Questions evenly spread over the held-out ones: the same ones at each evaluation.",
        ),
        View(
            "predictions/wrong answers",
            table(wrong) if len(wrong) else "Every held-out question is answered exactly.",
            "Wrong answers, those that share no word with the gold ones first, and of these the most probable ones.",
        ),
    ]


def _shown_answer(answer, best, share):
    """The answer. For "no answer", also what it would be otherwise."""
    given = f"{escape(answer, _MOST_CHARACTERS) or '*no answer*'} ({percent(share)})"
    return f"{given}, else: {escape(str(best), _MOST_CHARACTERS)}" if not answer and best else given


def _gold(answers):
    return " / ".join(escape(text, _MOST_CHARACTERS) for text in dict.fromkeys(answers)) or "*no answer*"


def _probability(answer, result, row):
    """The probability of the given answer in the n-best list, NaN where it is not listed."""
    texts, scores = (one[row] for one in result.n_best)
    places = np.flatnonzero((texts == answer) & (scores > 0))
    return float(scores[places[0]]) if len(places) else float("nan")
