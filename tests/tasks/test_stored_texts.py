"""Tables whose texts do not fit into memory: examples, batches and runs are those of the same rows in memory."""

import gc
import json
import tracemalloc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from helpers.at_step import killed_at
from helpers.compare import assert_arrays_equal
from helpers.run_eagerly import run_eagerly
from helpers.tiny_directory import sentences, write_table, write_tiny_directory
from helpers.tiny_finetuning import DEV, SHORT, TASK

import kbert
from kbert.finetuning.predict_file import predict_file
from kbert.tasks import stored_texts
from kbert.tasks.stored_texts import StoredTexts, store_columns
from kbert.tasks.table import iterate_table, read_table, table_columns
from kbert.tasks.training_data import row_reader

ROWS = [(text if n % 5 else f"{text} é中\U0001f600\n", label) for n, (text, label) in enumerate(sentences(30))]


@pytest.fixture
def small(monkeypatch):
    """Columns of more than 100 characters go to a file."""
    monkeypatch.setattr(stored_texts, "_MOST_IN_MEMORY", 100)


def write_json_lines(path, rows):
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return path


def as_dataset(rows):
    texts, labels = zip(*rows, strict=True)
    return tf.data.Dataset.from_tensor_slices({"text": list(texts), "label": list(labels)})


def test_texts_are_those_that_were_stored(small):
    (texts,) = store_columns([(text,) for text, _ in ROWS], 1)
    expected = [text for text, _ in ROWS]
    assert isinstance(texts, StoredTexts) and list(texts) == expected and len(texts) == 30
    assert texts[0] == expected[0] and texts[-1] == expected[-1] and list(texts[3:9:2]) == expected[3:9:2]
    taken = texts.take([7, 0, 7]).take([2, 1])
    assert list(taken) == [expected[7], expected[0]] and list(tf.constant(taken).numpy()) == taken.read([0, 1])
    with pytest.raises(IndexError):
        texts[30]
    assert store_columns([("a" * 100,)], 1) == [["a" * 100]] and store_columns([], 2) == [[], []]


def test_texts_live_as_long_as_a_dataset_of_them(small):
    """TensorFlow keeps functions of `tf.numpy_function`, and what they refer to, as long as the process."""
    (texts,) = store_columns([(text,) for text, _ in ROWS], 1)
    reference = weakref.ref(texts)
    batches = iter(tf.data.Dataset.range(30).batch(7).map(row_reader({"text": texts})).prefetch(2))
    expected = texts.read(range(30))
    del texts
    gc.collect()
    assert [text for batch in batches for text in batch["text"].numpy()] == expected
    del batches
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("form", ["csv", "jsonl", "rows of a dataset", "batches of a dataset", "tuples of a dataset"])
def test_examples_are_those_in_memory(form, small, tmp_path):
    if "dataset" in form:
        rows = as_dataset(ROWS)
        rows = rows.batch(7) if form.startswith("batches") else rows
        rows = rows.map(lambda row: (row["text"], row["label"])) if form.startswith("tuples") else rows
    else:
        rows = (write_table if form == "csv" else write_json_lines)(tmp_path / f"rows.{form}", ROWS)
    there, expected = TASK.examples(rows), TASK.examples([(text, label) for text, label in ROWS])
    assert isinstance(there.texts, StoredTexts) and isinstance(expected.texts, list)
    for one, other in zip((there, *there.split(0.2)), (expected, *expected.split(0.2)), strict=True):
        assert list(one.texts) == list(other.texts) and np.array_equal(one.labels, other.labels)
        assert one.fingerprint() == other.fingerprint() and one.baseline() == other.baseline()
    assert isinstance(there.split(0.2)[0].texts, StoredTexts) and there[3] == expected[3]


@pytest.mark.slow  # test_examples_are_those_in_memory, and test_grouped_batches_are_the_same, from a step on
def test_a_run_is_that_of_rows_in_memory_and_resumes_exactly(monkeypatch, tmp_path):
    init = write_tiny_directory(tmp_path / "init")
    path = write_table(tmp_path / "rows.csv", ROWS)
    with run_eagerly():
        plain = SHORT | {"steps": 2, "evaluate_every": 2}
        expected = kbert.finetune(init, TASK, path, DEV, **plain)
        monkeypatch.setattr(stored_texts, "_MOST_IN_MEMORY", 100)
        options = plain | {"group_by_length": False, "checkpoint_every": 1}
        with pytest.raises(KeyboardInterrupt):
            kbert.finetune(
                init, TASK, path, DEV, tmp_path / "run", callbacks=[killed_at(2, KeyboardInterrupt)], **options
            )
        run = kbert.finetune(init, TASK, path, DEV, tmp_path / "run", **options)
    assert_arrays_equal(expected.pipeline.model.get_weights(), run.pipeline.model.get_weights())
    assert expected.metrics["dev"] == run.metrics["dev"]


@pytest.mark.usefixtures("eagerly")
def test_grouped_batches_are_the_same(small, tmp_path):
    pipeline = kbert.build_pipeline(write_tiny_directory(tmp_path / "model", "classification", num_labels=2))
    batches = []
    for rows in (ROWS, write_json_lines(tmp_path / "rows.jsonl", ROWS)):
        data = TASK.training_data(pipeline, TASK.examples(rows), batch_size=8, seed=3, group_by_length=True)
        batches.append(list(data.make_dataset(start_step=2).take(3)))
    for one, other in zip(*batches, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def test_the_memory_is_that_of_some_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(stored_texts, "_MOST_IN_MEMORY", 1 << 18)
    path = write_table(tmp_path / "rows.tsv", [("long text " * 400, f"label {n % 2}") for n in range(5_000)])
    tracemalloc.start()
    try:
        examples = TASK.read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(examples) == 5_000 and path.stat().st_size > 20e6 and peak < 4e6, peak


@pytest.mark.parity
@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "stream.arrow", "rows.feather"])
def test_parquet_and_arrow_files(name, small, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"n": [1, None, 3], "text": [text for text, _ in ROWS[:3]], "label": [True, False, True]}
    path, table = tmp_path / name, pyarrow.table(columns)
    if name.endswith("parquet"):
        parquet.write_table(table, path)
    else:
        new = pyarrow.ipc.new_stream if name.startswith("stream") else pyarrow.ipc.new_file
        with new(str(path), table.schema) as writer:
            writer.write_table(table)
    examples = TASK.read(path)
    assert list(examples.texts) == columns["text"] and list(examples.label_names) == ["False", "True"]
    assert examples.labels.tolist() == [1, 0, 1] and table_columns(path) == list(columns)
    assert [row for _, row in iterate_table(path, ["n"])] == [{"n": "1"}, {"n": ""}, {"n": "3"}]
    with pytest.raises(
        ValueError, match=r"expected the columns \['text', 'stars'\]. Received: \['n', 'text', 'label'\]"
    ):
        read_table(path, ["text", "stars"])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="is damaged: "):
        read_table(path)


def test_without_pyarrow(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match="rows.parquet needs pyarrow: pip install pyarrow"):
        read_table(tmp_path / "rows.parquet")


@pytest.mark.parity
def test_a_parquet_file_is_answered(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"id": list(range(30)), "text": [text for text, _ in ROWS]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "rows.parquet")
    pipeline = kbert.build_pipeline(write_tiny_directory(tmp_path / "model", "classification", num_labels=2))
    with run_eagerly():
        predict_file(pipeline, tmp_path / "rows.parquet", tmp_path / "answers.jsonl", keep=["id"])
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [(row["id"], row["text"]) for row in answers] == [(str(n), text) for n, text in enumerate(columns["text"])]
