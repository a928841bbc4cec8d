"""Multiple-choice questions in memory and their files: SWAG, DREAM, and your own CSV, TSV or JSON lines.

Shapes: n questions, C choices.
"""

import contextlib
import dataclasses
import json
from collections.abc import Sequence

import numpy as np

from kbert.checks import check_path, shown
from kbert.files import read_json
from kbert.tasks.examples import Examples
from kbert.tasks.table import JSON_LINES, iterate_json_lines, read_table
from kbert.tasks.text_files import check_characters


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
    skipped = 0

    def __post_init__(self):
        if not len(self.prompts) == len(self.choices) == len(self.labels) or not len(self.prompts):
            raise ValueError(
                "Expected as many prompts, lists of choices and labels, at least one. "
                f"Received: {len(self.prompts)}, {len(self.choices)} and {len(self.labels)}"
            )
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


SWAG_COLUMNS = ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3", "label")


def read_choices(path, prompt: str = "prompt", choices: Sequence[str] = ("choices",), label: str = "label"):
    """Your own questions as `LabelledChoices`, from a file that `kbert.tasks.table.read_table` reads.

    A .csv or .tsv file has a column for each choice. An empty cell is not a choice. A .jsonl file has the same keys, or
    one key with a list of strings. Prompts may be blank.

    The label is the exact text of the right choice or, if it is not one of the texts, its number from 0. If choices are
    equal, the text means the first of them.
    """
    prompts, lists, labels, places = _read(path, prompt, choices, label)
    return LabelledChoices(prompts, lists, _numbers(lists, labels, places), path=str(path))


def read_prompts(path, format: str = "table", prompt: str = "prompt", choices: Sequence[str] = ("choices",)):
    """Prompts and lists of choices, for prediction. Unlike `read_questions`, tables and SWAG need no labels."""
    if format == "swag":
        with _format_in_errors(format):
            table, choices, _ = _swag(path, SWAG_COLUMNS[:-1])
        return table["sent1"], choices
    if format in READERS:
        examples = read_questions(path, format)
        return examples.prompts, examples.choices
    return _read(path, prompt, choices, None)[:2]


def read_questions(path, format="table", prompt="prompt", choices=("choices",), label=None) -> LabelledChoices:
    """Questions in the format "swag", "dream" or "table", with columns as in `read_choices`."""
    if format in READERS:
        with _format_in_errors(format):
            return READERS[format](path)
    return read_choices(path, prompt, choices, label or "label")


@contextlib.contextmanager
def _format_in_errors(format):
    """Names the format in the errors of its reader: the file may be in another one."""
    try:
        yield
    except ValueError as error:
        said = str(error).removesuffix(".")
        raise ValueError(f"{said}. It was read as {format!r}; --format (in Python `format`) names another") from error


def choices_from_columns(prompts, choices, labels) -> LabelledChoices:
    """Questions in memory: prompts, a list of choices each, and the text of the right one or its number from 0."""
    places = [f"row {row}" for row in range(len(prompts))]
    for where, texts in zip(places, choices, strict=True):
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{where}: expected a list of strings as choices. Received: {shown(texts)}")
        _check_choices(where, texts)
    lists = [_without_end(texts) for texts in choices]
    return LabelledChoices(prompts, lists, _numbers(lists, labels, places))


def _read(path, prompt, choices, label):
    """Prompts, lists of choices, labels (None without a column) and "file, line" of each."""
    columns = [prompt, *choices, *([label] if label else [])]
    if len(choices) == 1 and check_path(path, "read: `path`").suffix.lower() not in JSON_LINES:
        raise ValueError(f"{path}: expected the names of the columns, one a choice, at least two. Received: {choices}")
    if len(choices) == 1:
        rows = _listed_rows(path, columns)
    else:
        table = read_table(path, columns)
        cells = zip(*(table[name] for name in columns), strict=True)
        rows = [(table.where(n), row[0], list(row[1 : len(choices) + 1]), row[-1]) for n, row in enumerate(cells)]
    for where, _, texts, _ in rows:
        _check_choices(where, texts)
    places, prompts, lists, labels = (list(part) for part in zip(*rows, strict=True))
    return prompts, [_without_end(texts) for texts in lists], labels if label else None, places


def read_swag(path) -> LabelledChoices:
    """SWAG's csv (Zellers et al. 2018): which of four endings continues the second sentence?

    The prompt is the first sentence, each choice the beginning of the second with an ending (paper, section 4.4).
    """
    table, choices, places = _swag(path, SWAG_COLUMNS)
    numbers = _numbers([["0", "1", "2", "3"]] * len(choices), table["label"], places)
    return LabelledChoices(table["sent1"], choices, numbers, path=str(path))


def _swag(path, columns):
    """The table, the choices and "file, line" of each row."""
    table = read_table(path, columns, format="csv")
    endings = zip(*(table[f"ending{i}"] for i in range(4)), strict=True)
    choices = [[f"{start} {e}".strip() for e in four] for start, four in zip(table["sent2"], endings, strict=True)]
    places = [table.where(n) for n in range(len(choices))]
    for where, four in zip(places, choices, strict=True):
        _check_choices(where, four)
    return table, choices, places


def read_dream(path) -> LabelledChoices:
    """DREAM's JSON (Sun et al. 2019): questions about dialogues, three choices each.

    The prompt is the dialogue, its turns joined by spaces. Each choice is the question and an answer. So a row that is
    too long loses the end of its longer text, the dialogue, and never the question.
    """
    dialogues = read_json(path, object, data=True)
    prompts = []
    choices = []
    labels = []
    places = []
    for number, entry in enumerate(dialogues if isinstance(dialogues, list) else [dialogues]):
        where = f"{path}, dialogue {number + 1}"
        for question, answers, answer, turns in _questions(entry, where):
            prompts.append(" ".join(turns))
            choices.append([f"{question} {text}" for text in answers])
            labels.append(f"{question} {answer}")
            places.append(where)
    if not prompts:
        raise ValueError(f"{path}: expected at least one question. Received: none")
    return LabelledChoices(prompts, choices, _numbers(choices, labels, places), path=str(path))


def _questions(entry, where):
    try:
        turns, questions, _ = entry
        for one in questions:
            if not isinstance(turns, list) or not isinstance(one["choice"], list):
                raise TypeError("turns and choices must be lists")
            for text in (one["question"], one["answer"], *one["choice"], *turns):
                if not isinstance(text, str):
                    raise TypeError("texts must be strings")
                check_characters(text, where)
            _check_choices(where, one["choice"])
            yield one["question"], one["choice"], one["answer"], turns
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ValueError) and str(error).startswith(where):
            raise
        raise ValueError(
            f"{where}: expected [turns, [{{question, choice, answer}}, …], name]. Received: {str(entry)[:80]} ({error})"
        ) from error


def _listed_rows(path, columns):
    """(where, prompt, list of choices, label) of each line of a JSON-lines file with choices in a list."""
    rows = []
    for number, entry in iterate_json_lines(path):
        where = f"{path}, line {number}"
        if missing := [name for name in columns if name not in entry]:
            raise ValueError(f"{where}: expected the keys {columns}. Received: {list(entry)}; missing: {missing}.")
        prompt = entry[columns[0]]
        texts = entry[columns[1]]
        label = entry[columns[-1]]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in [prompt, *texts]):
            raise ValueError(
                f"{where}: expected a string in {columns[0]!r} and a list of strings in {columns[1]!r}. "
                f"Received: {json.dumps(texts)[:80]} (choices in columns of their own? then name them all)"
            )
        for text in (prompt, *texts):
            check_characters(text, where)
        rows.append((where, prompt, texts, label))
    return rows


def _check_choices(where, texts):
    there = [text for text in texts if text]
    if len(there) < 2 or any(not text.strip() for text in there):
        raise ValueError(f"{where}: expected at least two choices, none of them blank. Received: {texts}")


def _without_end(texts):
    """The list without empty strings at its end. One between choices is kept, so that numbers stay right."""
    last = max(i for i, text in enumerate(texts) if text)
    return texts[: last + 1]


def _numbers(choices, labels, places):
    """Each label's number among its choices, int32."""
    numbers = np.empty(len(labels), "int32")
    for row, (texts, label, where) in enumerate(zip(choices, labels, places, strict=True)):
        text = label if isinstance(label, str) else json.dumps(label)
        if text and text in texts:
            numbers[row] = texts.index(text)
        elif text.strip().isdecimal() and len(text) < 10 and int(text) < len(texts) and texts[int(text)]:
            numbers[row] = int(text)
        else:
            raise ValueError(
                f"{where}: expected the text of a choice or its number from 0, of {texts}. Received: "
                + (repr(text) if text else "'', an empty cell")
            )
    return numbers


READERS = {"swag": read_swag, "dream": read_dream}
