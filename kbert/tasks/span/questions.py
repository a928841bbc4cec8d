"""Questions on texts in memory and their files: SQuAD's JSON, version 1.1 and 2.0, and your own tables."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbert.aliases import PathLike
from kbert.checks import shown
from kbert.files import read_json
from kbert.tasks.examples import Examples
from kbert.tasks.in_memory import column_names, table_of
from kbert.tasks.table import Table, check_characters, check_texts, whole_number


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Questions(Examples):
    """Questions with their contexts and right answers."""

    ids: Sequence[str]
    questions: Sequence[str]
    contexts: Sequence[str]
    answers: Sequence[tuple[str, ...]]  # the right ones; the first is for training; none: not answerable
    answer_starts: np.ndarray  # int32 [questions], code points, of the first answer; -1: it is not in the context
    path: str | None = None
    lines: Sequence[int] = ()

    row_fields = ("ids", "questions", "contexts", "answers", "answer_starts")

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
    """The position of the answer in its context: `start`, else the nearest occurrence, -1 if there is none.

    `start` is in code points, according to the file. Without it the first occurrence is taken that is not part of a
    longer word ("art" in "Bart likes art"), else the first.
    """
    if not answer:
        return -1
    if start is not None and start >= 0 and context.startswith(answer, start):
        return start
    places = []
    at = context.find(answer)
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


TEXTS = ("question", "context")


def read_questions(data: Any) -> Questions:
    """Reads questions from a file or from rows in memory: `.json` as `read_squad`, all others by their columns.

    The columns are ``question``, ``context`` and ``answer``, and perhaps ``answer_start`` (code points, empty if
    unknown) and ``id`` (empty: the number of the row, from 1). An empty answer means that there is none. Instead of
    ``answer`` there may be ``answers``, a dict of the lists ``text`` and ``answer_start`` as in Hugging Face's datasets
    of SQuAD. Both are empty for a question without an answer.
    """
    if isinstance(data, str | os.PathLike) and pathlib.Path(data).suffix.lower() == ".json":
        return read_squad(data)
    if "answers" in column_names(data):
        return questions_from_table(table_of(data, (*TEXTS, "answers"), ("id",), nested=("answers",)))
    return questions_from_table(table_of(data, (*TEXTS, "answer"), ("answer_start", "id")))


def questions_from_table(table: Table) -> Questions:
    """The questions of a table's columns, as in `read_questions`."""
    check_texts(table, TEXTS)
    rows = range(len(table.lines))
    ids = [cell or str(row) for row, cell in enumerate(table.get("id", [""] * len(rows)), start=1)]
    _check_ids(ids, table.where)
    answers, starts = zip(*(_answers_of_row(table, row) for row in rows), strict=True)
    starts = np.array(starts, "int32")
    return Questions(ids, table["question"], table["context"], list(answers), starts, table.path, table.lines)


def _answers_of_row(table, row):
    """(texts, start of the first)."""
    where = table.where(row)
    context = table["context"][row]
    if "answers" in table:
        answers = table["answers"][row]
        if isinstance(answers, dict):
            texts, starts = (_part(where, answers, name, list) for name in ("text", "answer_start"))
            if len(texts) != len(starts):
                raise ValueError(f"{where}: expected an 'answer_start' for each 'text'. Received: {shown(answers)}")
            answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
        return _answers(where, {"answers": answers}, context)
    answer = table["answer"][row]
    if not answer.strip():
        return (), -1
    cell = table["answer_start"][row].strip() if "answer_start" in table else ""
    start = whole_number(cell)
    if cell and start is None:
        raise ValueError(f"{where}: expected a whole number in 'answer_start'. Received: {shown(cell)}")
    return (answer,), _located(where, context, answer, start)


def read_squad(path: PathLike, *, labelled: bool = True) -> Questions:
    """Reads SQuAD's JSON: ``data``, ``paragraphs``, ``context``, ``qas``, ``answers``.

    A question whose ``is_impossible`` is true, or whose list of answers is empty, is not answerable (2.0). Unless
    `labelled`, ``answers`` may also be missing. An answer that is not at its ``answer_start`` is searched for nearby.
    If the context does not contain it at all, the question is lost (`Questions.is_lost`): it counts in scores, but
    cannot be learned.

    Source: rajpurkar.github.io/SQuAD-explorer; google-research/bert run_squad.py, ``read_squad_examples``.
    """
    rows = list(_squad_rows(read_json(path, object, data=True), path, labelled))
    if not rows:
        raise ValueError(f"{path} holds no question: expected data[…].paragraphs[…].qas[…].")
    ids, questions, contexts, answers, starts, places = zip(*rows, strict=True)
    _check_ids(ids, lambda row: places[row])
    return Questions(ids, questions, contexts, answers, np.array(starts, "int32"), str(path))


def _squad_rows(content, path, labelled):
    for a, article in enumerate(_part(f"{path}, the whole", content, "data", list)):
        at = f"{path}, data[{a}]"
        for p, paragraph in enumerate(_part(at, article, "paragraphs", list)):
            inside = f"{at}.paragraphs[{p}]"
            context = _part(inside, paragraph, "context", str)
            for q, question in enumerate(_part(inside, paragraph, "qas", list)):
                place = f"{inside}.qas[{q}]"
                identifier = _part(place, question, "id", (str, int))
                text = _part(place, question, "question", str)
                yield str(identifier), text, context, *_answers(place, question, context, labelled), place


def _answers(where, question, context, labelled=True):
    """(texts, start of the first)."""
    impossible = question.get("is_impossible")
    if not isinstance(impossible, bool | None):
        raise ValueError(f"{where}: expected true or false in 'is_impossible'. Received: {impossible!r}")
    if impossible or ("answers" not in question and not labelled):
        return (), -1
    texts = []
    start = None
    for n, answer in enumerate(_part(where, question, "answers", list)):
        at = f"{where}.answers[{n}]"
        text = _part(at, answer, "text", str)
        if not text.strip():
            continue
        if not texts and "answer_start" in answer:
            start = whole_number(answer["answer_start"])
            if start is None:
                raise ValueError(f"{at}: expected a whole number in 'answer_start'. Received: {shown(answer)}")
        texts.append(text)
    return tuple(texts), _located(where, context, texts[0], start) if texts else -1


def _located(where, context, answer, start):
    """`locate` for a start that must lie in the context, or None."""
    if start is not None and not 0 <= start < len(context):
        raise ValueError(
            f"{where}: expected 'answer_start' to be a position in the context, which has {len(context)} characters, "
            f"counted from 0. Received: {start}"
        )
    return locate(context, answer, start)


def _part(where, parent, name, kind):
    value = parent.get(name) if isinstance(parent, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = "a list" if kind is list else "a string"
        raise ValueError(f"{where}: expected {name!r}, {kinds}, as in SQuAD's JSON. Received: {shown(parent)}")
    return check_characters(value, f"{where}, {name!r}") if isinstance(value, str) else value


def _check_ids(ids, where):
    first = {}
    for row, identifier in enumerate(ids):
        if identifier in first:
            raise ValueError(
                f"{where(row)}: expected ids that differ. Received: {identifier!r}, also at {where(first[identifier])}"
            )
        first[identifier] = row
