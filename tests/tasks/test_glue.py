"""GLUE: the real files and the shapes of the official layout."""

import numpy as np
import pytest

from kbert.tasks.glue import GLUE_TASKS, GlueTask
from kbert.tasks.metrics import METRICS

COLA = GlueTask(  # a file without a header
    name="CoLA", text="sentence", header=("source", "label", "original", "sentence"), metrics=("matthews",)
)
STS_B = GlueTask(  # numbers as labels
    name="STS-B", text="sentence1", text_pair="sentence2", label="score", labels=None, score_range=(0.0, 5.0),
    metrics=("pearson", "spearman"),
)  # fmt: skip


@pytest.mark.parametrize(
    "name, train, dev, positive",
    [("SST-2", 67349, 872, 444), ("MRPC", 3668, 408, 279)],
)
def test_the_real_files(shared_data, name, train, dev, positive):
    task = GLUE_TASKS[name]
    assert len(task.read(shared_data / "glue", "train")) == train
    examples = task.read(shared_data / "glue" / name, "dev")  # the task's own directory does as well
    assert len(examples) == dev
    assert examples.labels.sum() == positive
    assert examples.pair == task.pair == (name == "MRPC")


def test_the_text_of_the_real_files(shared_data):
    dev = GLUE_TASKS["SST-2"].read(shared_data / "glue", "dev")
    assert dev.texts[0] == "it 's a charming and often affecting journey . "
    assert dev.labels[:2].tolist() == [1, 0]
    dev = GLUE_TASKS["MRPC"].read(shared_data / "glue", "dev")  # with a byte order mark
    assert dev.texts[0].startswith("He said the foodservice pie business doesn 't fit")
    assert dev.text_pairs[0].startswith('" The foodservice pie business does not fit')
    assert sum('"' in text for text in dev.texts) > 50  # quotation marks are text, also single ones


def test_one_entry_reads_the_other_layouts(shared_data):
    examples = COLA.read(shared_data / "glue", "dev")
    assert (len(examples), examples.texts[0]) == (1043, "The sailors rode the breeze clear of the rocks.")
    examples = STS_B.read(shared_data / "glue", "dev")
    assert len(examples) == 1500
    assert examples.text_pairs[1] == "A child is riding a horse."
    np.testing.assert_array_equal(examples.labels[:2], np.array([5.0, 4.75], "float32"))


@pytest.mark.parametrize("task", GLUE_TASKS.values(), ids=lambda t: t.name)
def test_entries_are_whole(task):
    assert set(task.metrics) <= set(METRICS)
    for row in task.paper.values():
        assert set(row) <= set(task.metrics)
        assert all(1 < value < 100 for value in row.values())


def _sst2(tmp_path, content):
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "dev.tsv").write_bytes(content)
    return tmp_path


def test_windows_line_ends(tmp_path):
    examples = GLUE_TASKS["SST-2"].read(_sst2(tmp_path, b"sentence\tlabel\r\nfine \t1\r\nbad\t0\r\n"), "dev")
    assert examples.texts == ["fine ", "bad"]
    assert examples.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"sentence\tlabel\nfine\t1\nbad\t2\n", r"dev.tsv, line 3: .*\['0', '1'\]. Received: '2'"),
        (b"text\tlabel\nfine\t1\n", "dev.tsv, line 1: .*missing: .'sentence'"),
        (b"sentence\tlabel\nfine\n", "dev.tsv, line 2: expected 2 cells"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        GLUE_TASKS["SST-2"].read(_sst2(tmp_path, content), "dev")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="with SST-2/train.tsv in it"):
        GLUE_TASKS["SST-2"].read(tmp_path, "train")
    with pytest.raises(ValueError, match=r"labelled splits \['train', 'dev'\]. Received: 'test'"):
        GLUE_TASKS["SST-2"].read(tmp_path, "test")
