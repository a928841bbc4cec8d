"""Multiple choice: a prompt and its choices → the best one.

Shapes: C choices, n questions.
"""

import dataclasses
import functools
from typing import Literal

import numpy as np

from kbert.inspection.markdown import escape, percent
from kbert.inspection.view import View
from kbert.pipelines.task_signature import LONG_TEXT, SENTENCE, answering
from kbert.tasks.in_memory import read_columns, text_table
from kbert.tasks.metrics import accuracy
from kbert.tasks.multiple_choice.questions import (
    LabelledChoices,
    choices_from_columns,
    read_prompts,
    read_questions,
)
from kbert.tasks.table import check_texts
from kbert.tasks.task import Evaluation, Task, TrainingData


@dataclasses.dataclass(frozen=True)
class MultipleChoice(Task):
    """Chooses one of several choices for each prompt (section 4.4 of the paper).

    Its model answers ``choice``, counted from 0, and ``probabilities`` of all.

    Args:
        format: the format of files: "table", or the published "swag" or "dream".
        prompt, label: names of a table's columns: the prompt, and the right choice, as its text or its number from 0.
        choices: names of the choices' columns, or the key of a .jsonl file with lists. In memory, one column of lists.
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
    reading = ("prompt", "choices", "label", "format")
    heads = ("multiple_choice_head",)
    playground_views = ()
    lists = ("metrics", "choices")

    def __post_init__(self):
        super().__post_init__()
        self._check_metrics(("accuracy",))

    @classmethod
    def model_class(cls):
        from kbert.models.multiple_choice import BertMultipleChoice

        return BertMultipleChoice

    def parts(self, model, tokenizer, sequence_length):
        from kbert.answers.choice import ChoiceAnswers
        from kbert.preprocessing.choice_preprocessor import ChoicePreprocessor

        return ChoicePreprocessor(tokenizer, sequence_length, name="preprocessor"), ChoiceAnswers(name="answers")

    @classmethod
    def exported_answers(cls, labels, outputs):
        from kbert.answers.choice import ChoiceAnswers

        return ChoiceAnswers()

    @classmethod
    def signatures(cls, pipeline):
        return {"choose": answering(pipeline)}

    @classmethod
    def example_rows(cls, names):
        choices = ["walked in.", "ate the door.", "was a door.", "sang blue."]
        return [
            {"prompt": "She opened the door and", "choices": choices},
            {"prompt": LONG_TEXT, "choices": [SENTENCE, "walked in.", "sang blue.", "was a door."]},
        ]

    @classmethod
    def read_columns(cls, path, columns, *, format="table", choice_columns=("choices",)):
        """Prompts with their lists of choices, from a table or a published format."""
        prompts, choices = read_prompts(path, format, columns["prompt"], list(choice_columns))
        return {columns["prompt"]: prompts, columns["choices"]: choices}

    def read(self, path):
        return read_questions(path, self.format, self.prompt, self.choices, self.label)

    def from_memory(self, data):
        columns = read_columns(data, [self.prompt, *self.choices, self.label])
        lists = columns.pop(self.choices[0]) if len(self.choices) == 1 else None
        table = text_table(columns, list(columns))
        check_texts(table, [self.prompt], may_all_be_empty=True)
        if lists is None:
            lists = [list(texts) for texts in zip(*(table[name] for name in self.choices), strict=True)]
        return choices_from_columns(table[self.prompt], lists, table[self.label])

    def training_data(self, pipeline, train, **batches):
        from kbert.tasks.training_data import real_tokens, training_dataset

        make_dataset = functools.partial(training_dataset, train, pipeline.preprocessor, **batches)
        return TrainingData(len(train), len(train), real_tokens(train, pipeline.preprocessor), make_dataset)

    def evaluate(self, pipeline, examples, *, batch_size=32, static=False, choose=False):
        from kbert.tasks.scores import evaluate

        scores, predictions = evaluate(
            pipeline.model, pipeline.preprocessor, examples, self.metrics, batch_size=batch_size, static=static
        )
        return Evaluation(scores, predictions, show=lambda: choice_views(examples, predictions))

    def baseline_scores(self, answer, examples):
        answers = np.full(len(examples), answer)
        return {"accuracy": accuracy(examples.labels, answers)}


_MOST_CHARACTERS = 200


def choice_views(examples: LabelledChoices, probabilities: np.ndarray) -> list[View]:
    """A classifier's views with the numbers of the choices as labels, which show whether a place is preferred."""
    from kbert.inspection.examples.prediction_views import label_views

    def cells(row):
        label = int(examples.labels[row])
        chosen = int(np.argmax(probabilities[row]))
        lines = []
        for n, text in enumerate(examples.choices[row]):
            mark = "✓ " if n == label else "✗ " if n == chosen else ""
            stars = "**" if n == label else "*" if n == chosen else ""
            shown = f"{stars}{escape(text, _MOST_CHARACTERS)}{stars}" if text.strip() else "–"
            lines.append(f"{mark}{n}: {shown} ({percent(probabilities[row, n])})")
        prompt = escape(examples.prompts[row], _MOST_CHARACTERS)
        return [prompt, "<br>".join(lines), escape(examples.source(row))]

    names = [str(n) for n in range(probabilities.shape[1])]
    return label_views(probabilities, examples.labels, names, ["prompt", "choices", "from"], cells)
