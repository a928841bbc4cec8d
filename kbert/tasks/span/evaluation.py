"""Questions on long texts → the windows of fine-tuning, a model's answers, and how these are scored and shown.

Shapes: B questions, W windows of all of them, S sequence, n questions, k entries of an n-best list.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np
import tensorflow as tf

from kbert.aliases import PathLike
from kbert.answers.spans import SpanAnswers
from kbert.files import write_json
from kbert.inspection.markdown import escape, mark_spans, markdown_table, percent
from kbert.inspection.view import View
from kbert.pipelines.pipeline import Pipeline
from kbert.tasks.scores import check_scores, predict_answers
from kbert.tasks.span.metrics import null_threshold, raw_scores, squad_scores
from kbert.tasks.span.questions import Questions
from kbert.tasks.training_data import WindowStore

if TYPE_CHECKING:
    from kbert.preprocessing.window_preprocessors import SpanPreprocessor


def span_positions(
    batch: Mapping[str, tf.Tensor], answer_starts: tf.Tensor | np.ndarray, answer_ends: tf.Tensor | np.ndarray
) -> tuple[tf.Tensor, tf.Tensor]:
    """First and last token of each question's answer, in each of its windows.

    The tokens of an answer are those that share a character with it. A window without all of them, and every window of
    a question without an answer, has 0 and 0: [CLS] means "not here". `answer_starts` and `answer_ends` are int32 [B],
    code points of the context, half-open, -1 and -1 for no answer. Returns (start, end), int32 [W], columns of the
    window.

    Source: Devlin et al. 2018, section 4.3; google-research/bert run_squad.py, ``convert_examples_to_features``.
    """
    row = batch["window_row"]
    starts = tf.gather(tf.cast(answer_starts, tf.int32), row)[:, tf.newaxis]  # [W, 1]
    ends = tf.gather(tf.cast(answer_ends, tf.int32), row)[:, tf.newaxis]
    is_answer = (batch["window_token"] >= 0) & (batch["token_ends"] > starts) & (batch["token_starts"] < ends)  # [W, S]
    here = _count(is_answer)  # [W]
    # Every token has its maximum context in exactly one window, so each token of the answer is counted once.
    all_of_row = tf.math.unsorted_segment_sum(_count(is_answer & batch["is_max_context"]), row, tf.size(answer_starts))
    is_whole = (here > 0) & (here == tf.gather(all_of_row, row))
    first = tf.argmax(is_answer, axis=1, output_type=tf.int32)
    return tf.where(is_whole, first, 0), tf.where(is_whole, first + here - 1, 0)


def _count(mask):
    return tf.math.count_nonzero(mask, axis=1, dtype=tf.int32)


def span_windows(questions: Questions, preprocessor: "SpanPreprocessor") -> tuple[WindowStore, dict[str, np.ndarray]]:
    """All windows of the questions, and the position of the answer in each.

    No question may be lost (`Questions.is_lost`), since it would teach the model that there is no answer. Returns a
    `WindowStore` and {"start_logits", "end_logits"}, int32 [W, 2]: the answer's first or last token, and the length of
    the window. The loss ignores positions after it (`kbert.optim.SpanLoss`).
    """
    if questions.is_lost.any():
        lost = [questions.ids[i] for i in np.flatnonzero(questions.is_lost)[:3]]
        raise ValueError(
            f"span_windows: expected contexts that hold their answers. Received: {int(questions.is_lost.sum())} that "
            f"do not, such as {lost}; take the others"
        )
    positions = []

    def locate(questions, batch):
        positions.append(span_positions(batch, questions.answer_starts, questions.answer_ends))

    store = WindowStore.from_examples(questions, preprocessor, locate)
    starts, ends = (np.concatenate([np.asarray(pair[i]) for pair in positions]) for i in (0, 1))
    return store, {
        "start_logits": np.stack([starts, store.lengths], 1),
        "end_logits": np.stack([ends, store.lengths], 1),
    }


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

    def write(self, directory: PathLike) -> None:
        """Writes ``predictions.json``, ``null_odds.json`` and ``nbest.json`` to a directory.

        They hold {id: answer}, "" for none; {id: number}; and {id: [{"text", "probability"}, …]}, best first.
        ``evaluate-v2.0.py dev.json predictions.json`` (for 1.1 its own script) scores them, with the threshold already
        applied. With ``--na-prob-file null_odds.json`` it also searches for the best threshold. Then give
        ``--na-prob-thresh`` with the threshold of the run: its default is 1.0, but odds are differences of logits.
        """
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        files = {
            "predictions.json": [str(answer) for answer in self.answers],
            "null_odds.json": [float(value) for value in self.odds],
            "nbest.json": [
                [{"text": str(t), "probability": float(p)} for t, p in zip(*entries, strict=True) if t or p]
                for entries in zip(*self.n_best, strict=True)
            ],
        }
        for name, values in files.items():
            write_json(directory / name, dict(zip(self.questions.ids, values, strict=True)))


def evaluate_questions(
    pipeline: Pipeline,
    questions: Questions,
    *,
    version: str = "2.0",
    threshold: float | Literal["best"] | None = None,
    batch_size: int = 32,
) -> SpanEvaluation:
    """Answers every question and scores the answers by the rules of the `version`, "1.1" or "2.0".

    The pipeline's own threshold is not used. `threshold` None answers every question. "best" chooses the one with the
    best F1 on these questions, for a dev set.
    """
    own = pipeline.answers
    never = None if threshold is None else _NEVER_NULL
    always = SpanAnswers(own.n_best, own.max_answer_length, never, name="answers")
    answers = predict_answers(Pipeline(pipeline.preprocessor, pipeline.model, always), questions.columns, batch_size)
    check_scores(np.stack([answers["score"], answers["null_score"]], axis=1))
    best = answers["answer"]
    places = np.stack([answers["start"], answers["end"]], axis=1)
    odds = answers["null_score"] - answers["score"]
    if threshold == "best":
        threshold = null_threshold(questions.answers, best, odds, version)
    scores = squad_scores(
        questions.answers, best, odds=None if threshold is None else odds, threshold=threshold or 0.0, version=version
    )
    n_best = (answers["n_best_answers"], answers["n_best_scores"])
    return SpanEvaluation(questions, best, places, odds, n_best, threshold, scores)


MOST_QUESTIONS = 10  # of a table
_MOST_CHARACTERS = 200
_MARKS = "⟦**gold**⟧ and ❮*answer*❯ in the context"


def answer_views(result: SpanEvaluation, version: str) -> list[View]:
    """Questions with their answer and the gold one, both marked in the context, and the surest wrong answers."""
    questions = result.questions
    answers = [str(answer) for answer in result.answers]
    exact, f1 = raw_scores(questions.answers, answers, version)
    fractions = np.array([_probability(answer, result, row) for row, answer in enumerate(answers)])
    sample = np.unique(np.linspace(0, len(answers) - 1, MOST_QUESTIONS).astype("int64"))
    wrong = np.lexsort((-fractions, f1 > 0))  # nothing right first, then the surest first
    wrong = wrong[exact[wrong] == 0][:MOST_QUESTIONS]

    def table(rows):
        lines = []
        for row in rows:
            mark = f"≈ F1&nbsp;{percent(f1[row])}" if f1[row] else "✗"
            gold = (questions.answer_starts[row], questions.answer_ends[row])
            place = tuple(result.places[row]) if answers[row] else None
            lines.append(
                [
                    "✓" if exact[row] else mark,
                    escape(questions.questions[row], _MOST_CHARACTERS),
                    _shown_answer(answers[row], result.best_answers[row], fractions[row]),
                    _gold(questions.answers[row]),
                    mark_spans(questions.contexts[row], gold, place),
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


def _shown_answer(answer, best, fraction):
    """The answer. For "no answer", also what it would be otherwise."""
    shown = f"{escape(answer, _MOST_CHARACTERS) or '*no answer*'} ({percent(fraction)})"
    return f"{shown}, else: {escape(str(best), _MOST_CHARACTERS)}" if not answer and best else shown


def _gold(answers):
    return " / ".join(escape(text, _MOST_CHARACTERS) for text in dict.fromkeys(answers)) or "*no answer*"


def _probability(answer, result, row):
    """The probability of the given answer in the n-best list, NaN where it is not listed."""
    texts, scores = (values[row] for values in result.n_best)
    places = np.flatnonzero((texts == answer) & (scores > 0))
    return float(scores[places[0]]) if len(places) else float("nan")
