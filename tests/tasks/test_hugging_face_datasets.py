"""Rows in memory as Hugging Face's datasets hold them: names for ClassLabels, SQuAD's lists of answers."""

import types

import pytest

import kbert
from kbert.tasks.in_memory import column_names, read_columns


class ClassLabel:
    """As theirs."""

    def __init__(self, *names):
        self.int2str = names.__getitem__


class Dataset:
    """As theirs (checked by hand with datasets 5.2): a format may hide columns until it is taken off."""

    def __init__(self, columns, features=(), shown=None):
        self._columns, self._features, self._shown = columns, dict(features), shown

    @property
    def column_names(self):
        return list(self._columns)

    @property
    def features(self):
        return {name: self._features.get(name) for name in self._columns}

    def with_format(self, type):
        assert type is None
        return Dataset(self._columns, self._features)

    def __getitem__(self, name):
        if self._shown is not None and name not in self._shown:
            raise KeyError(name)
        return iter(self._columns[name])


def test_class_labels_become_their_names():
    columns = {"text": ["good", "bad", "none"], "label": [1, 0, -1], "other": [1, 2, 3]}
    data = Dataset(columns, {"label": ClassLabel("neg", "pos")}, shown=["text"])
    assert read_columns(data, ["text", "label"]) == {"text": columns["text"], "label": ["pos", "neg", None]}
    with pytest.raises(ValueError, match=r"expected the columns \['text', 'stars'\]"):
        read_columns(data, ["text", "stars"])
    with pytest.raises(ValueError, match="row 2: expected a label in 'label'"):
        kbert.tasks.Classification(text="text", label="label").examples(data)


def test_tags_in_lists():
    columns = {"words": [["Ada", "left"], ["No"]], "tags": [[1, 0], [0]]}
    tags = types.SimpleNamespace(feature=ClassLabel("O", "B-PER"))
    examples = kbert.tasks.Tagging().examples(Dataset(columns, {"tags": tags}))
    assert [list(one) for one in examples.tags] == [["B-PER", "O"], ["O"]]


QUESTIONS = {
    "id": ["x", "y"],
    "question": ["Who?", "Why?"],
    "context": ["So Ada did.", "No."],
    "answers": [{"text": ["Ada", "did"], "answer_start": [3, 7]}, {"text": [], "answer_start": []}],
}


def test_questions_with_lists_of_answers():
    rows = [dict(zip(QUESTIONS, row, strict=True)) for row in zip(*QUESTIONS.values(), strict=True)]
    for data in (Dataset(QUESTIONS), QUESTIONS, rows):
        assert column_names(data) == list(QUESTIONS)
        read = kbert.tasks.SpanExtraction().examples(data)
        assert (list(read.ids), read.answers, list(read.answer_starts)) == (["x", "y"], [("Ada", "did"), ()], [3, -1])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"id": ["x", "x"]}, "row 1: expected ids that differ"),
        ({"answers": [{"text": ["Ada"]}] * 2}, "row 0: expected 'answer_start', a list"),
        ({"answers": [{"text": ["Ada"], "answer_start": []}] * 2}, "row 0: expected an 'answer_start' for each"),
        ({"answers": [{"text": ["Ada"], "answer_start": [99]}] * 2}, "row 0: expected 'answer_start' to be a position"),
        ({"answers": [{"text": ["Ada"], "answer_start": [True]}] * 2}, "expected 'answer_start', a whole number"),
    ],
)
def test_bad_answers(change, message):
    with pytest.raises(ValueError, match=message):
        kbert.tasks.SpanExtraction().examples(QUESTIONS | change)
