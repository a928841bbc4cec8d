"""The task of picking one of several choices."""

import dataclasses
import functools

import numpy as np

from kbert.tasks.in_memory import read_columns, text_table
from kbert.tasks.label_evaluation import evaluate
from kbert.tasks.metrics import accuracy
from kbert.tasks.multiple_choice.choice_views import choice_views
from kbert.tasks.multiple_choice.readers import READERS, choices_from_columns, read_questions
from kbert.tasks.table import check_texts
from kbert.tasks.task import Evaluation, Task, TrainingData
from kbert.tasks.training_dataset import real_tokens, training_dataset


@dataclasses.dataclass(frozen=True)
class MultipleChoice(Task):
    """Chooses one of several choices for each prompt (section 4.4 of the paper).

    Args:
        format: the format of files: "table", or the published "swag" or "dream".
        prompt, label: names of a table's columns: the prompt, and the right choice, as its text or its number from 0.
        choices: names of the choices' columns, or the key of a .jsonl file with lists. In memory: one column of lists.
        metrics: ``accuracy``.

    Raises:
        ValueError: an unknown format, unknown metrics.

    Example::

        task = MultipleChoice(prompt="question", choices=("a", "b", "c"), label="right")
        task.read("quiz.csv")
    """

    format: str = "table"
    prompt: str = "prompt"
    choices: tuple[str, ...] = ("choices",)
    label: str = "label"
    metrics: tuple[str, ...] = ("accuracy",)

    name = "multiple_choice"

    def __post_init__(self):
        if self.format not in ("table", *READERS):
            raise ValueError(
                f"MultipleChoice: `format` must be one of {['table', *READERS]}. Received: {self.format!r}"
            )
        object.__setattr__(self, "choices", tuple([self.choices] if isinstance(self.choices, str) else self.choices))
        self._check_metrics(("accuracy",))

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

    def settings(self, train):
        return {}

    def training_data(self, pipeline, train, **batches):
        make_dataset = functools.partial(training_dataset, train, pipeline.preprocessor, **batches)
        return TrainingData(len(train), len(train), real_tokens(train, pipeline.preprocessor), make_dataset)

    def evaluate(self, pipeline, examples, *, batch_size=32, static=False, choose=False):
        scores, predictions = evaluate(
            pipeline.model, pipeline.preprocessor, examples, self.metrics, batch_size=batch_size, static=static
        )
        return Evaluation(scores, predictions, show=lambda: choice_views(examples, predictions))

    def baseline_scores(self, answer, examples):
        answers = np.full(len(examples), answer)
        return {"accuracy": accuracy(examples.labels, answers)}


TASK = MultipleChoice
