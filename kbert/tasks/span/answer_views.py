"""What TensorBoard shows of answers to questions.

Shapes: n questions.
"""

import numpy as np

from kbert.inspection.examples.marked_text import mark_spans
from kbert.inspection.markdown import escape, markdown_table, percent
from kbert.inspection.view import View
from kbert.tasks.span.metrics import raw_scores

MOST_QUESTIONS = 10  # of a table
_MOST_CHARACTERS = 200
_MARKS = "⟦**gold**⟧ and ❮*answer*❯ in the context"


def answer_views(result, version: str) -> list[View]:
    """Questions with the answer beside the gold one and both marked in the context, and the surest wrong answers."""
    questions, answers = result.questions, [str(answer) for answer in result.answers]
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
                    _answer(answers[row], result.best_answers[row], shares[row]),
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


def _answer(answer, best, share):
    """With "no answer", what it would be otherwise."""
    given = f"{escape(answer, _MOST_CHARACTERS) or '*no answer*'} ({percent(share)})"
    return f"{given}, else: {escape(str(best), _MOST_CHARACTERS)}" if not answer and best else given


def _gold(answers):
    return " / ".join(escape(text, _MOST_CHARACTERS) for text in dict.fromkeys(answers)) or "*no answer*"


def _probability(answer, result, row):
    """Of the answer that is given, by the n-best list; NaN where it is not in it."""
    texts, scores = (one[row] for one in result.n_best)
    places = np.flatnonzero((texts == answer) & (scores > 0))
    return float(scores[places[0]]) if len(places) else float("nan")
