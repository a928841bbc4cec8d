"""The base class of all answers: from a model's outputs to labels, spans and so on, in graph.

Shapes: B batch, T words of the longest text.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras

from kbert.keras_compat import pass_inputs_unchanged


class Answers(keras.layers.Layer):
    """The base class of the layers that turn a model's outputs into answers: ``answers(outputs, batch)``.

    A subclass defines `call`, which returns a dict of outputs with one entry per row of the string columns, and
    `to_dicts`. Outputs are not cast, whatever the dtype policy.

    Args:
        **kwargs: name, dtype, trainable.

    Attributes:
        option_names: arguments of the constructor that are settings of the model, stored with it under these names.
        labels: names of the logits, if it has any.
        thresholds: the probability that each label has to exceed, where labels are on or off. None: 0.5.
        null_threshold: for questions: by how much "no answer" must exceed the best answer. None: always answer.
        window_pooling: how the windows of a text become one answer: "mean" or "max". None: texts are not split.
        pad_values: output → padding value of shorter rows, for outputs as wide as the longest row of their batch.
        fits_table: whether an answer is a row of a table, not a list or a structure.

    Raises:
        NotImplementedError: `to_dicts` of a subclass that does not define it.
    """

    option_names: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    thresholds: tuple[float, ...] | None = None
    null_threshold: float | None = None
    window_pooling: str | None = None
    pad_values: Mapping[str, Any] = {}
    fits_table: bool = True

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        pass_inputs_unchanged(self)  # a mixed dtype policy must not cast the logits
        self.supports_jit = False  # XLA has no strings

    def settings(self) -> dict[str, Any]:
        """What is stored with the model, as the fields of the task object name it."""
        values = {name: getattr(self, name) for name in self.option_names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The answers of each row as plain Python values, as they are written to files.

        Args:
            answers: what ``pipeline.predict`` returned, arrays with the first dimension B.

        Yields:
            A dict for each of the B rows.
        """
        raise NotImplementedError

    def table_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """A dict of `to_dicts` as the cells of a table, if `fits_table`."""
        return row

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **Answers.settings(self)}


def check_number(labels: Sequence[str], shape: Sequence[int | None], owner: str) -> None:
    """Raises ValueError unless there are as many labels as logits."""
    if shape[-1] not in (None, len(labels)):
        raise ValueError(f"{owner}: expected as many labels as logits ({shape[-1]}). Received: {list(labels)}")


def single_values(answers: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Dicts of rows that have a single value or vector for each output."""
    for value in answers[name].tolist():
        yield {name: value}


def grouped_values(answers: Mapping[str, Any], group: str, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Dicts of rows that have a list of ``count`` dicts each, from outputs [B, T] by their names in the dicts."""
    columns = {singular: answers[name].tolist() for name, singular in names.items()}
    for row, count in enumerate(answers["count"].tolist()):
        yield {group: [{name: values[row][n] for name, values in columns.items()} for n in range(count)]}
