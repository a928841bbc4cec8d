"""Rows in memory as Hugging Face's datasets hold them: names for ClassLabels, SQuAD's lists of answers."""

import types

import pytest
from helpers.compare import assert_tree_equal
from helpers.slow_but import slow_but
from helpers.tiny_directory import write_tiny_directory
from helpers.tiny_finetuning import NO_DEV, start
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.pretraining.run.source import corpus_source
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


def test_their_names_of_words_and_tags():
    columns = {"id": ["0"], "tokens": [["Ada", "left"]], "ner_tags": [[1, 0]]}
    tags = types.SimpleNamespace(feature=ClassLabel("O", "B-PER"))
    task = kbert.tasks.Tagging()
    examples = task.examples(Dataset(columns, {"ner_tags": tags}))
    assert list(examples) == [{"words": ["Ada", "left"], "tags": ["B-PER", "O"], "document": 0}]
    assert list(task.examples([{"tokens": ["Ada", "left"], "ner_tags": ["B-PER", "O"]}])) == list(examples)


class DatasetDict(dict):
    """As theirs: it has the attributes of a dataset, too."""

    @property
    def column_names(self):
        return {name: split.column_names for name, split in self.items()}

    def with_format(self, type):
        return DatasetDict({name: split.with_format(type) for name, split in self.items()})


def splits(*names):
    feature = {"label": ClassLabel("neg", "pos")}
    return DatasetDict({name: Dataset({"text": [name, "b"], "label": [1, 0]}, feature) for name in names})


def test_splits_are_chosen():
    task, data = kbert.tasks.Classification(), splits("train", "validation", "test")
    assert task.examples(data)[0] == {"text": "train", "label": "pos"}
    assert task.examples(data, dev=True)[0]["text"] == "validation"
    assert column_names(data) == ["text", "label"]
    assert list(corpus_source(data)) == [["train"], ["b"]]
    with pytest.raises(ValueError, match=r"the split 'validation' .* Received: \['train', 'test'\]; give one"):
        task.examples(splits("train", "test"), dev=True)
    with pytest.raises(ValueError, match=r"the split 'train' .* such as data\['test'\]"):
        corpus_source(splits("test"))


@pytest.mark.parity
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("output", slow_but(["run"], ["run", None]))
def test_predict_takes_the_columns_of_the_training(tmp_path, output):
    pd = pytest.importorskip("pandas")
    task = kbert.tasks.Classification(text="review", text_pair="text", label="stars")
    rows = {"review": ["one", "two", "three"], "text": ["a", "b", "c"], "stars": ["1", "2", "1"]}
    init = write_tiny_directory(tmp_path / "init")
    path = None if output is None else tmp_path / output
    pipeline = kbert.finetune(init, task, rows, output=path, **NO_DEV | {"steps": 1}).pipeline
    own = {"text": rows["review"], "text_pair": rows["text"]}
    expected = pipeline.predict(own)["probabilities"]
    loaded = [] if path is None else [kbert.build_pipeline(path), kbert.build_pipeline(kbert.load_pretrained(path))]
    for one in (pipeline, *loaded):
        for data in (rows, pd.DataFrame(rows), Dataset(rows, shown=["text"]), Dataset(own)):
            assert_tree_equal(one.predict(data)["probabilities"], expected, 1e-6)
    with pytest.raises(ValueError, match=r"expected a dict with \['text', 'text_pair'\]. Received: \['review'\]"):
        pipeline.predict({"review": ["one"]})


@pytest.mark.parametrize("names, dev", [(["train", "validation"], ["validation"]), (["train", "test"], [])])
def test_finetune_takes_both_splits_of_one_dict(tmp_path, names, dev):
    init = write_tiny_directory(tmp_path / "init")
    made = start(init, kbert.tasks.Classification(), splits(*names))
    assert made.train[0]["text"] == "train" and [examples[0]["text"] for examples in made.dev.values()] == dev


def test_labels_in_lists():
    task = kbert.tasks.Classification(label_separator="|")
    labels = [["pos"], [], ["neg", "pos"]]
    for cells in (labels, [tuple(some) for some in labels], ["pos", "", "neg|pos"]):
        examples = task.examples({"text": ["a", "b", "c"], "label": cells})
        assert [row["label"] for row in examples] == labels
    feature = types.SimpleNamespace(feature=ClassLabel("neg", "pos"))
    data = Dataset({"text": ["a", "b", "c"], "label": [[1], [], [0, 1]]}, {"label": feature})
    assert [row["label"] for row in task.examples(data)] == labels
    for cell in (["a|b"], ["a", "a"], [""]):
        with pytest.raises(ValueError, match="row 0: expected in 'label' names of labels that differ"):
            task.examples({"text": ["a"], "label": [cell]})
    with pytest.raises(ValueError, match=r"row 0: expected one label .* Received: \['pos'\]. For several"):
        kbert.tasks.Classification().examples({"text": ["a", "b", "c"], "label": labels})


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


def test_bad_answers():
    wrong_inputs(
        lambda change: kbert.tasks.SpanExtraction().examples(QUESTIONS | change),
        ({"id": ["x", "x"]}, "row 1: expected ids that differ"),
        ({"answers": [{"text": ["Ada"]}] * 2}, "row 0: expected 'answer_start', a list"),
        ({"answers": [{"text": ["Ada"], "answer_start": []}] * 2}, "row 0: expected an 'answer_start' for each"),
        ({"answers": [{"text": ["Ada"], "answer_start": [99]}] * 2}, "row 0: .*'answer_start' to be a position"),
        (
            {"answers": [{"text": ["Ada"], "answer_start": [True]}] * 2},
            "row 0.answers.0.: expected a whole number in 'answer_start'",
        ),
    )
