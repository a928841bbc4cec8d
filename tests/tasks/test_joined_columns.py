"""A text in several columns of a table, joined by a separator that the trained model keeps."""

import json

import numpy as np
import pytest
from helpers.run_recipe import read_json, run_kbert
from helpers.tiny_directory import sentences, write_table, write_tiny_directory
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.finetuning import predict_file
from kbert.keras_compat import set_untracked
from kbert.pipelines.text_columns import TextColumns
from kbert.tasks.stored_texts import StoredTexts

HEADER = ("subject", "body", "label")
ROWS = [(text.split()[1], " ".join(text.split()[2:]), label) for text, label in sentences(24)]
JOINED = [f"{subject} . {body}" for subject, body, _ in ROWS]
TASK = kbert.tasks.Classification(text=["subject", "body"], text_separator=" . ")


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "tickets.csv", ROWS, HEADER)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    init = write_tiny_directory(home / "init", dropout=0.0)
    more = {"window_pooling": "mean", "doc_stride": 4}
    task = kbert.tasks.Classification(text=TASK.text, text_separator=TASK.text_separator, **more)
    return kbert.finetune(init, task, ROWS, ROWS, home / "run", steps=3, batch_size=8, sequence_length=6)


def test_files_and_memory_have_the_same_texts(table, tmp_path, monkeypatch):
    columns = dict(zip(HEADER, map(list, zip(*ROWS, strict=True)), strict=True))
    examples = TASK.read(table)
    assert list(examples.texts) == JOINED and examples.columns == {"text": JOINED}
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in ROWS))
    for data in (tmp_path / "t.jsonl", ROWS, columns, [dict(zip(HEADER, row, strict=True)) for row in ROWS]):
        assert TASK.examples(data).fingerprint() == examples.fingerprint()
    assert kbert.tasks.Classification(text=["subject", "body"]).read(table).texts[0] == " ".join(ROWS[0][:2])
    empty = TASK.examples([("", "film", "a"), ("book", None, "b")])
    assert empty.texts == [" . film", "book . "]
    monkeypatch.setattr("kbert.tasks.stored_texts._MOST_IN_MEMORY", 20)
    stored = TASK.read(table)
    assert isinstance(stored.texts, StoredTexts) and list(stored.texts) == JOINED


def test_wrong_columns(table):
    wrong_inputs(
        lambda text: kbert.tasks.Regression(text=text),
        ([], "`text` must name at least one column"),
        (3, "`text` must be a string or a list"),
    )
    with pytest.raises(ValueError, match=r"expected the columns \['subject', 'title', 'label'\].*missing: \['title'\]"):
        kbert.tasks.Classification(text=["subject", "title"]).read(table)


@pytest.mark.usefixtures("eagerly")
def test_a_trained_model_joins_the_columns_that_it_was_trained_on(run, table):
    """In windows, as a joined text is a single one; a frame that has only the joined text is taken as well."""
    stored = kbert.build_pipeline(run.path)
    assert run.pipeline.trained_columns == stored.trained_columns == {"text": TextColumns(("subject", "body"), " . ")}
    expected = stored.predict(JOINED, verbose=0)["probabilities"]
    frame = {name: list(column) for name, column in zip(HEADER, zip(*ROWS, strict=True), strict=True)}
    for pipeline in (run.pipeline, stored):
        np.testing.assert_allclose(pipeline.predict(frame, verbose=0)["probabilities"], expected, atol=1e-5)
    scores = [run.pipeline.evaluate(texts, frame["label"], verbose=0) for texts in (frame, JOINED)]
    assert scores[0] == pytest.approx(scores[1])
    for source, data in ((run.path, table), (run.path, frame), (run.pipeline, ROWS)):
        assert kbert.evaluate(source, examples=data)["loss"] == pytest.approx(run.metrics["dev"]["loss"], rel=1e-5)


def test_a_column_may_be_named_like_the_input(run):
    pipeline = kbert.build_pipeline(run.pipeline.model, run.pipeline.tokenizer)
    set_untracked(pipeline, "trained_columns", {"text": TextColumns(("title", "text"), ": ")})
    both = pipeline.columns({"text": ["b"], "title": ["a"]})
    assert both["text"].numpy().tolist() == [b"a: b"]
    assert pipeline.columns({"text": ["a: b"]})["text"].numpy().tolist() == [b"a: b"]


@pytest.mark.usefixtures("eagerly")
def test_files_are_predicted_with_the_same_texts(run, table, tmp_path):
    expected = run.pipeline.predict(JOINED, verbose=0)["probabilities"]
    other = write_table(tmp_path / "other.csv", ROWS, ("about", "words", "label"))
    exported = kbert.export(run.pipeline, tmp_path / "exported")
    card = read_json(exported / "card.json")
    assert card["joined_columns"] == {"text": {"names": ["subject", "body"], "separator": " . "}}

    def check(row_of, number):
        for row, probabilities in zip(row_of, expected, strict=True):
            assert list(row)[:2] == number
            assert list(row["probabilities"].values()) == pytest.approx(probabilities, abs=1e-5)

    def rows(path):
        return [json.loads(line) for line in path.read_text().splitlines()]

    predict_file(run.pipeline, table, tmp_path / "a.jsonl")
    check(rows(tmp_path / "a.jsonl"), ["subject", "body"])
    predict_file(run.pipeline, other, tmp_path / "b.jsonl", columns={"text": ["about", "words"]})
    check(rows(tmp_path / "b.jsonl"), ["about", "words"])
    for source, name in ((run.path, "c"), (exported, "d")):
        run_kbert("predict", "--source", source, "--input", table, "--output", tmp_path / f"{name}.jsonl")
        check(rows(tmp_path / f"{name}.jsonl"), ["subject", "body"])
    flags = ("--text", "about", "words")
    run_kbert("predict", "--source", run.path, "--input", other, "--output", tmp_path / "e.jsonl", *flags)
    check(rows(tmp_path / "e.jsonl"), ["about", "words"])
    with pytest.raises(ValueError, match=r"expected the columns \['about', 'no'\].*missing: \['no'\]"):
        predict_file(run.pipeline, other, tmp_path / "f.jsonl", columns={"text": ["about", "no"]})


@pytest.mark.usefixtures("eagerly")
def test_the_command_trains_on_several_columns_and_a_student_on_texts_without_labels(run, table, tmp_path):
    init = write_tiny_directory(tmp_path / "init", dropout=0.0)
    flags = ("--source", init, "--train", table, "--output", tmp_path / "student", "--steps", 1, "--batch-size", 8)
    columns = ("--text", "subject", "body", "--text-separator", " . ", "--sequence-length", 6)
    run_kbert("finetune", "classification", *flags, *columns, "--teacher", run.path, "--unlabelled", table)
    settings = read_json(tmp_path / "student/settings.json")["task"]
    assert (settings["text"], settings["text_separator"]) == (["subject", "body"], " . ")
    assert read_json(tmp_path / "student/metrics.json")["unlabelled_examples"] == len(ROWS)
