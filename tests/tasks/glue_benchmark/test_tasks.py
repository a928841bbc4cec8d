"""GLUE: the real files and the shapes of the official layout."""

import numpy as np
import pytest
from helpers.run_eagerly import run_eagerly
from helpers.tiny_directory import write_tiny_directory
from helpers.tiny_finetuning import start
from helpers.toy_glue import OTHER, write_toy_glue
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS
from kbert.tasks.metrics import CLASS_METRICS, NUMBER_METRICS


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return write_toy_glue(tmp_path_factory.mktemp("glue"))


REAL = [  # name, train, dev, sum of the dev labels
    ("SST-2", 67349, 872, 444),
    ("MRPC", 3668, 408, 279),
    ("CoLA", 8551, 1043, 721),
    ("STS-B", 5749, 1500, 3545.873),
]


@pytest.mark.parametrize("name, train, dev, total", REAL)
def test_the_real_files(shared_data, name, train, dev, total):
    task = GLUE_TASKS[name]
    assert len(task.read(shared_data / "glue", "train")) == train
    examples = task.read(shared_data / "glue" / name, "dev")  # the task's own directory does as well
    assert len(examples) == dev
    assert examples.labels.sum() == pytest.approx(total, rel=1e-5)
    assert examples.pair == task.pair == (name in ("MRPC", "STS-B"))
    assert examples.regression == (name == "STS-B")


def test_the_text_of_the_real_files(shared_data):
    dev = GLUE_TASKS["SST-2"].read(shared_data / "glue", "dev")
    assert dev.texts[0] == "it 's a charming and often affecting journey . "
    assert dev.labels[:2].tolist() == [1, 0]
    dev = GLUE_TASKS["MRPC"].read(shared_data / "glue", "dev")  # with a byte order mark
    assert dev.texts[0].startswith("He said the foodservice pie business doesn 't fit")
    assert dev.text_pairs[0].startswith('" The foodservice pie business does not fit')
    assert sum('"' in text for text in dev.texts) > 50  # quotation marks are text, also single ones
    dev = GLUE_TASKS["CoLA"].read(shared_data / "glue", "dev")  # without a header
    assert (dev.texts[0], dev.labels[4]) == ("The sailors rode the breeze clear of the rocks.", 0)
    dev = GLUE_TASKS["STS-B"].read(shared_data / "glue", "dev")
    assert dev.text_pairs[1] == "A child is riding a horse."
    np.testing.assert_array_equal(dev.labels[:2], np.array([5.0, 4.75], "float32"))


@pytest.mark.parametrize("task", GLUE_TASKS.values(), ids=lambda t: t.name)
def test_every_layout(toy, task):
    train = task.read(toy, "train")
    assert (len(train), train.texts[1], train.pair) == (60, "the fine book .", task.pair)
    assert train.text_pairs is None or set(train.text_pairs) == {OTHER}
    assert train.skipped == (2 if task.name == "QQP" else 0)
    expected = {"RTE": [1, 0, 0], "QNLI": [1, 0, 0], "MNLI": [0, 1, 1], "STS-B": [0, 4.5, 4.5]}
    assert train.labels[:3].tolist() == expected.get(task.name, [0, 1, 1])
    assert [len(task.read(toy, split)) for split in task.dev_splits] == ([20, 17] if task.name == "MNLI" else [20])


def test_the_metrics_of_all_dev_sets():
    assert GLUE_TASKS["MNLI"].columns == ("accuracy", "accuracy_mm")
    assert GLUE_TASKS["MRPC"].columns == ("f1", "accuracy")


@pytest.mark.parametrize("task", GLUE_TASKS.values(), ids=lambda t: t.name)
def test_entries_are_whole(task):
    assert set(task.metrics) <= set(NUMBER_METRICS if task.regression else CLASS_METRICS)
    for row in task.paper.values():
        assert set(row) <= set(task.columns)
        assert all(1 < value < 100 for value in row.values())


def _sst2(tmp_path, content):
    (tmp_path / "SST-2").mkdir(exist_ok=True)
    (tmp_path / "SST-2" / "dev.tsv").write_bytes(content)
    return tmp_path


def test_windows_line_ends(tmp_path):
    examples = GLUE_TASKS["SST-2"].read(_sst2(tmp_path, b"sentence\tlabel\r\nfine \t1\r\nbad\t0\r\n"), "dev")
    assert examples.texts == ["fine ", "bad"]
    assert examples.labels.tolist() == [1, 0]


def test_what_is_wrong_is_named(tmp_path):
    wrong_inputs(
        lambda content: GLUE_TASKS["SST-2"].read(_sst2(tmp_path, content), "dev"),
        (b"sentence\tlabel\nfine\t1\nbad\t2\n", r"dev.tsv, line 3: .*\['0', '1'\]. Received: '2'"),
        (b"text\tlabel\nfine\t1\n", "dev.tsv, line 1: .*missing: .'sentence'"),
        (b"sentence\tlabel\nfine\n", "dev.tsv, line 2: expected 2 cells"),
    )


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="with SST-2/train.tsv in it"):
        GLUE_TASKS["SST-2"].read(tmp_path, "train")
    with pytest.raises(ValueError, match=r"labelled splits \['train', 'dev'\]. Received: 'test'"):
        GLUE_TASKS["SST-2"].read(tmp_path, "test")


@pytest.mark.parametrize("name", ["RTE", "MNLI", "STS-B"])
def test_a_directory_to_evaluate_on_is_its_dev_split(toy, name):
    """Of MNLI the matched one."""
    task = kbert.tasks.glue(name)
    train, dev = task.examples(toy), task.examples(toy, dev=True)
    assert (train.fingerprint(), dev.fingerprint()) == tuple(task.read(toy, s).fingerprint() for s in ("train", "dev"))
    file = toy / name / "train.tsv"
    assert task.examples(file, dev=True).fingerprint() == train.fingerprint()


def test_finetune_and_evaluate_take_the_dev_split(toy, tmp_path):
    task = kbert.tasks.glue("RTE")
    work = start(write_tiny_directory(tmp_path / "init"), task, toy, toy, more_dev={"_more": toy})
    assert (len(work.train), len(work.dev[""]), len(work.dev["_more"])) == (60, 20, 20)
    with run_eagerly():
        assert kbert.evaluate(work.pipeline, task, toy)["examples"] == 20


def test_names_in_any_case_and_what_is_printed():
    for name in ("mrpc", "Mrpc", "MRPC"):
        task = kbert.tasks.glue(name)
        assert repr(task) == 'kbert.tasks.glue("MRPC")' and task.to_dict()["glue"] == "MRPC"
    assert kbert.tasks.glue("sts-b").glue == "STS-B"
    for name in ("SST", "", None, 2):
        with pytest.raises(ValueError, match=f"glue: expected one of .*'CoLA'.* Received: {name!r}"):
            kbert.tasks.glue(name)
