"""Questions on texts, in memory: the examples of question answering."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from kbert.tasks.examples import Examples


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Questions(Examples):
    """Questions with their contexts and right answers.

    Example::

        questions = Questions(["1"], ["Who?"], ["Ada did."], [("Ada",)], np.array([0], "int32"))
        questions.answer_ends  # [3]
    """

    ids: Sequence[str]
    questions: Sequence[str]
    contexts: Sequence[str]
    answers: Sequence[tuple[str, ...]]  # the right ones; the first is for training; none: not answerable
    answer_starts: np.ndarray  # int32 [questions], code points, of the first answer; -1: it is not in the context
    path: str | None = None
    lines: Sequence[int] = ()

    row_fields = ("ids", "questions", "contexts", "answers", "answer_starts")

    def __post_init__(self):
        sizes = [len(getattr(self, name)) for name in self.row_fields]
        if len(set(sizes)) > 1 or not sizes[0]:
            raise ValueError(
                f"Expected as many ids, questions, contexts, answers and starts, at least one. Received: {sizes}"
            )

    @property
    def answer_ends(self) -> np.ndarray:
        """int32 [questions]: the end of the first answer, -1 if it is not in the context."""
        lengths = np.array([len(answers[0]) if answers else 0 for answers in self.answers], "int32")
        return np.where(self.answer_starts < 0, -1, self.answer_starts + lengths).astype("int32")

    @property
    def has_answer(self) -> np.ndarray:
        """bool [questions]: whether the question can be answered."""
        return np.array([bool(answers) for answers in self.answers], bool)

    @property
    def is_lost(self) -> np.ndarray:
        """bool [questions]: whether there is an answer that is not in the context, so that it cannot be learned."""
        return self.has_answer & (self.answer_starts < 0)

    @property
    def columns(self) -> dict[str, list[str]]:
        """The strings, by the names of the pipeline's inputs."""
        return {"question": list(self.questions), "context": list(self.contexts)}

    def _rows(self):
        answers = {"answers": list(self.answers), "answer_start": self.answer_starts.tolist()}
        return {"id": list(self.ids)} | self.columns | answers

    def baseline(self) -> str:
        """No answer."""
        return ""

    def _groups(self):
        rows = {}
        for row, context in enumerate(self.contexts):
            rows.setdefault(context, []).append(row)
        return list(rows.values()) if len(rows) > 1 else super()._groups()

    @property
    def _unit(self):
        return "contexts" if len(set(self.contexts)) > 1 else "questions"


def locate(context: str, answer: str, start: int | None) -> int:
    """The position of the answer in its context: `start`, else the nearest occurrence; -1 if there is none.

    Args:
        start: code points, the start of the answer according to the file; None: unknown. Then it is the first
            occurrence that is not part of a longer word ("art" in "Bart likes art"), else the first.
    """
    if not answer:
        return -1
    if start is not None and start >= 0 and context.startswith(answer, start):
        return start
    places, at = [], context.find(answer)
    while at >= 0:
        places.append(at)
        at = context.find(answer, at + 1)
    if start is None:
        return min(places, key=lambda place: _is_in_a_word(context, place, place + len(answer)), default=-1)
    return min(places, key=lambda place: abs(place - start), default=-1)


def _is_in_a_word(context, start, end):
    """Whether a letter or digit is next to either end."""
    pairs = (context[max(0, start - 1) : start + 1], context[end - 1 : end + 1])
    return any(len(pair) == 2 and pair.isalnum() for pair in pairs)
