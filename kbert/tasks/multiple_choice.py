"""Multiple choice: a prompt and its choices → the best one. Files are SWAG, DREAM, and your own tables.

Shapes: n questions, C choices.
"""

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kbert.aliases import PathLike
from kbert.checks import is_missing, shown
from kbert.files import read_json
from kbert.inspection.markdown import escape, percent
from kbert.tasks.examples import Examples
from kbert.tasks.in_memory import table_of
from kbert.tasks.metrics import accuracy, scores_by_label
from kbert.tasks.table import check_characters, check_texts, read_table, whole_number
from kbert.tasks.task import LONG_TEXT, SENTENCE, Evaluation, Task, TrainingData

if TYPE_CHECKING:
    from kbert.answers.answers import Answers
    from kbert.inspection.view import View
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.preprocessing.preprocessor import Preprocessor
    from kbert.text.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LabelledChoices(Examples):
    """Prompts, their choices, and the number of the right one. The number of choices may differ between questions."""

    prompts: Sequence[str]  # n
    choices: Sequence[Sequence[str]]  # n lists of at most C strings each; an empty string is not a choice
    labels: np.ndarray  # int32 [n], counted from 0
    path: str | None = None
    lines: Sequence[int] = ()

    row_fields = ("prompts", "choices", "labels")
    regression = False

    def __post_init__(self):
        super().__post_init__()
        for number, (choices, label) in enumerate(zip(self.choices, self.labels, strict=True)):
            if not 0 <= label < len(choices) or not choices[label]:
                raise ValueError(f"Expected the label of example {number} to be one of {choices}. Received: {label}")

    @property
    def columns(self) -> dict[str, Sequence]:
        """The strings, by the names of `ChoicePreprocessor`'s inputs. Every row has C choices."""
        return {"prompt": self.prompts, "choices": padded_choices(self.choices)}

    def _rows(self):
        return {"prompt": list(self.prompts), "choices": list(self.choices), "label": self.labels.tolist()}

    def baseline(self) -> int:
        """The number that is right most often."""
        return int(np.bincount(self.labels).argmax())


def padded_choices(choices: Sequence[Sequence[str]]) -> list[list[str]]:
    """The lists, filled up with empty strings to the length of the longest."""
    most = max(map(len, choices))
    return [[*row, *[""] * (most - len(row))] for row in choices]


_SWAG_COLUMNS = ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3")


def read_questions(
    data: Any,
    format: str = "table",
    prompt: str = "prompt",
    choices: Sequence[str] = ("choices",),
    label: str | None = "label",
) -> LabelledChoices:
    """Reads questions from a table, in a file or in memory, or from a file in a published format, "swag" or "dream".

    - table: a column for each choice, where an empty cell is not a choice, or one column of lists of strings. Prompts
      may be blank. The label is the exact text of the right choice (the first of equal ones) or, if it is not one of
      the texts, its number from 0.
    - swag: SWAG's csv (Zellers et al. 2018): which of four endings continues the second sentence? The prompt is the
      first sentence, each choice the beginning of the second with an ending (paper, section 4.4).
    - dream: DREAM's JSON (Sun et al. 2019): questions about dialogues, three choices each. The prompt is the dialogue,
      its turns joined by spaces. Each choice is the question and an answer. So a row that is too long loses the end of
      its longer text, the dialogue, and never the question.

    With `label` None, for predictions, tables and SWAG need no labels.
    """
    if format == "table" or not isinstance(data, str | os.PathLike):
        columns = [prompt, *choices, *([label] if label else [])]
        table = table_of(data, columns, nested=choices if len(choices) == 1 else ())
        return _labelled(_table_questions(table, prompt, choices, label), table.path, table.lines)
    with _format_in_errors(format):
        return _labelled(_dream_questions(data) if format == "dream" else _swag_questions(data, label), data)


@contextlib.contextmanager
def _format_in_errors(format):
    """Names the format in the errors of its reader: the file may be in another one."""
    try:
        yield
    except ValueError as error:
        message = str(error).removesuffix(".")
        raise ValueError(
            f"{message}. It was read as {format!r}; --format (in Python `format`) names another"
        ) from error


def _labelled(questions, path, lines=()) -> LabelledChoices:
    if not (questions := list(questions)):
        raise ValueError(f"{path}: expected at least one question. Received: none")
    prompts, choices, labels = (list(part) for part in zip(*questions, strict=True))
    return LabelledChoices(prompts, choices, np.array(labels, "int32"), None if path is None else str(path), lines)


def _table_questions(table, prompt, choices, label):
    if label:
        check_texts(table, [prompt], may_all_be_empty=True)
    labels = table[label] if label else [None] * len(table.lines)
    for row, (asked, right) in enumerate(zip(table[prompt], labels, strict=True)):
        where = table.where(row)
        texts = [table[name][row] for name in choices]
        texts = _listed(where, choices[0], texts[0]) if len(choices) == 1 else texts
        yield _question(where, asked, texts, right)


def _listed(where, column, texts):
    """The choices of a list, "" for each one that is missing."""
    texts = ["" if is_missing(text) else text for text in texts] if isinstance(texts, list) else texts
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"{where}: expected a list of strings in {column!r}. Received: {shown(texts)} (choices in columns of their "
            "own? then name them all)"
        )
    return texts


def _swag_questions(path, label):
    table = read_table(path, [*_SWAG_COLUMNS, "label"] if label else _SWAG_COLUMNS, format="csv")
    for row, (prompt, start) in enumerate(zip(table["sent1"], table["sent2"], strict=True)):
        choices = [f"{start} {table[f'ending{n}'][row]}".strip() for n in range(4)]
        number = table["label"][row] if label else None
        yield _question(table.where(row), prompt, choices, number, names=["0", "1", "2", "3"])


def _dream_questions(path):
    dialogues = read_json(path, object, data=True)
    for number, entry in enumerate(dialogues if isinstance(dialogues, list) else [dialogues], start=1):
        yield from _questions_of_dialogue(entry, f"{path}, dialogue {number}")


def _questions_of_dialogue(entry, where):
    try:
        turns, questions, _ = entry
        questions = [(question["question"], question["choice"], question["answer"]) for question in questions]
        if not all(isinstance(texts, list) for texts in (turns, *(answers for _, answers, _ in questions))):
            raise TypeError("turns and choices must be lists")
        parts = [*turns, *(part for text, answers, right in questions for part in (text, right, *answers))]
        if not all(isinstance(part, str) for part in parts):
            raise TypeError("texts must be strings")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{where}: expected [turns, [{{question, choice, answer}}, …], name]. Received: {str(entry)[:80]} ({error})"
        ) from error
    for part in parts:
        check_characters(part, where)
    for text, answers, right in questions:
        _check_choices(where, answers)
        yield _question(where, " ".join(turns), [f"{text} {answer}" for answer in answers], f"{text} {right}")


def _question(where, prompt, choices, label, names=None):
    """(prompt, choices, number of the right one), checked. Empty choices at the end are left out, and no others."""
    _check_choices(where, choices)
    last = max(n for n, text in enumerate(choices) if text)
    choices = choices[: last + 1]
    number = last if label is None else _number(where, names or choices, label)  # without a label any that is there
    return prompt, choices, number


def _check_choices(where, choices):
    texts = [text for text in choices if text]
    if len(texts) < 2 or any(not text.strip() for text in texts):
        raise ValueError(f"{where}: expected at least two choices, none of them blank. Received: {choices}")


def _number(where, choices, label):
    """The number of the choice that a label names."""
    if label and label in choices:
        return choices.index(label)
    number = whole_number(label)
    if number is not None and 0 <= number < len(choices) and choices[number]:
        return number
    raise ValueError(
        f"{where}: expected the text of a choice or its number from 0, of {choices}. Received: "
        + (repr(label) if label else "'', an empty cell")
    )


@dataclasses.dataclass(frozen=True)
class MultipleChoice(Task):
    """Chooses one of several choices for each prompt (section 4.4 of the paper).

    Its model answers ``choice``, counted from 0, and ``probabilities`` of all.

    Args:
        format: the format of files: "table", or the published "swag" or "dream".
        prompt, label: names of a table's columns: the prompt, and the right choice, as its text or its number from 0.
        choices: names of the choices' columns, or of one column of lists.
        metrics: ``accuracy``.

    Raises:
        ValueError: an unknown format, or unknown metrics.

    Example::

        task = MultipleChoice(prompt="question", choices=("a", "b", "c"), label="right")
        task.read("quiz.csv")
    """

    format: Literal["table", "swag", "dream"] = "table"
    prompt: str = "prompt"
    choices: tuple[str, ...] = ("choices",)
    label: str = "label"
    metrics: tuple[str, ...] = ("accuracy",)

    name = "multiple_choice"
    model_name = "BertMultipleChoice"
    answer_names = {"choice": "ChoiceAnswers"}
    signature = "choose"
    reading = ("prompt", "choices", "label", "format")
    heads = ("multiple_choice_head",)
    lists = ("metrics", "choices")

    def __post_init__(self):
        super().__post_init__()
        self._check_metrics(("accuracy",))

    def parts(
        self, model: "BertModel", tokenizer: "BertTokenizer", sequence_length: int
    ) -> "tuple[Preprocessor, Answers]":
        from kbert.answers.labels import ChoiceAnswers
        from kbert.preprocessing.preprocessor import ChoicePreprocessor

        return ChoicePreprocessor(tokenizer, sequence_length, name="preprocessor"), ChoiceAnswers(name="answers")

    @classmethod
    def example_rows(cls, names: tuple[str, ...]) -> list[dict]:
        choices = ["walked in.", "ate the door.", "was a door.", "sang blue."]
        return [
            {"prompt": "She opened the door and", "choices": choices},
            {"prompt": LONG_TEXT, "choices": [SENTENCE, "walked in.", "sang blue.", "was a door."]},
        ]

    @classmethod
    def read_columns(
        cls, path: PathLike, columns: Mapping[str, Sequence[str]], format: str | None
    ) -> dict[str, Sequence]:
        """Prompts with their lists of choices, from a table or a published format."""
        prompt, choices = columns["prompt"][0], columns["choices"]
        examples = read_questions(path, format or "table", prompt, choices, label=None)
        return {prompt: examples.prompts, choices[0] if len(choices) == 1 else "choices": examples.choices}

    def read(self, data: Any) -> LabelledChoices:
        return read_questions(data, self.format, self.prompt, self.choices, self.label)

    def training_data(self, pipeline: "Pipeline", train: LabelledChoices, **batches) -> TrainingData:
        from kbert.tasks import training_data as data

        preprocessor = pipeline.preprocessor
        rows = data.example_rows(train, preprocessor)
        return data.as_training_data(rows, data.real_tokens(train, preprocessor), **batches)

    def evaluate(
        self,
        pipeline: "Pipeline",
        examples: LabelledChoices,
        *,
        batch_size: int = 32,
        static: bool = False,
        choose: bool = False,
    ) -> Evaluation:
        from kbert.tasks.scores import evaluate

        scores, predictions = evaluate(pipeline, examples, self.metrics, batch_size=batch_size, static=static)
        return Evaluation(scores, predictions, show=lambda: choice_views(examples, predictions))

    def baseline_scores(self, answer: int, examples: LabelledChoices) -> dict[str, float]:
        answers = np.full(len(examples), answer)
        return {"accuracy": accuracy(examples.labels, answers)}


_MOST_CHARACTERS = 200


def choice_views(examples: LabelledChoices, probabilities: np.ndarray) -> "list[View]":
    """A classifier's views with the numbers of the choices as labels, which show whether a place is preferred."""
    from kbert.inspection.examples.prediction_views import label_views

    def cells(row):
        marks = {int(np.argmax(probabilities[row])): ("✗ ", "*")} | {int(examples.labels[row]): ("✓ ", "**")}
        lines = []
        for n, text in enumerate(examples.choices[row]):
            mark, stars = marks.get(n, ("", ""))
            shown = f"{stars}{escape(text, _MOST_CHARACTERS)}{stars}" if text.strip() else "–"
            lines.append(f"{mark}{n}: {shown} ({percent(probabilities[row, n])})")
        prompt = escape(examples.prompts[row], _MOST_CHARACTERS)
        return [prompt, "<br>".join(lines), escape(examples.source(row))]

    names = [str(n) for n in range(probabilities.shape[1])]
    by_choice = scores_by_label(examples.labels, probabilities.argmax(axis=1), names)
    return label_views(probabilities, examples.labels, by_choice, ["prompt", "choices", "from"], cells)
