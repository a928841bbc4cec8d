"""Predictions of a file: a killed run is continued with the same result, and the output appears whole."""

import functools
import gzip
import importlib
import io
import json
import os
import resource
import shutil
import signal
import tracemalloc
import types
import zipfile

import numpy as np
import pytest
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.files import WriteFault
from kbert.finetuning.predict_file import predict_file
from kbert.finetuning.prediction_rows import Rows, table_rows
from kbert.training import callbacks

module = importlib.import_module("kbert.finetuning.predict_file")  # its name means the function
TEXTS = [f"{word} film {'very ' * (n % 4)}good" for n, word in enumerate(["the", "a", "bad", "never"] * 6)]


@pytest.fixture(scope="module")
def pipeline():
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1)))
    return kbert.build_pipeline(model, tiny_tokenizer(), labels=["bad", "good"])


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text("id,text\n" + "".join(f'{n},"{text}"\n' for n, text in enumerate(TEXTS)))
    return path


def run(pipeline, source, output, **arguments):
    return predict_file(pipeline, source, output, **{"keep": ["id"], "batch_size": 5, **arguments})


def done(output):
    """How many answers a run that was stopped has kept."""
    return max(int(path.name.split("-")[1]) for path in output.with_name(f"{output.name}.partial").glob("0*-*"))


def stop(pipeline, source, output, monkeypatch, error):
    """A run that keeps its answers after every batch and is stopped after the second."""
    answer, left = pipeline.predict_on_batch, [2]

    def answer_or_stop(x):
        if not left[0]:
            raise error
        left[0] -= 1
        return answer(x)

    monkeypatch.setattr(module, "_SECONDS", -1.0)
    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(pipeline, "predict_on_batch", answer_or_stop)
        run(pipeline, source, output)


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.csv"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_stopped_run_is_continued_with_the_same_result(pipeline, source, tmp_path, monkeypatch, name, error):
    assert run(pipeline, source, tmp_path / f"whole-{name}") == len(TEXTS)
    stop(pipeline, source, tmp_path / name, monkeypatch, error)
    assert not (tmp_path / name).exists()
    assert done(tmp_path / name) == 10
    half = tmp_path / f"{name}.partial" / ".000000000010-000000000015.0a1b2c3d.tmp"
    half.write_text('{"text": "half of a li')  # what a kill leaves of the next part
    answered = []
    answer = pipeline.predict_on_batch
    monkeypatch.setattr(pipeline, "predict_on_batch", lambda x: answered.append(len(x["text"])) or answer(x))
    assert run(pipeline, source, tmp_path / name) == len(TEXTS)
    assert len(answered) == 3  # of five batches
    assert (tmp_path / name).read_bytes() == (tmp_path / f"whole-{name}").read_bytes()
    outputs = [name, f"whole-{name}"]
    metrics = [f"{output}.metrics.json" for output in outputs]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*outputs, *metrics, "texts.csv"])


def test_half_a_character_in_a_kept_column_is_named_before_the_work(pipeline, tmp_path, monkeypatch):
    rows = [{"text": "good", "note": note} for note in ("é", {"a": ["\ud83d"]})]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(pipeline, "predict_on_batch", None)
    with pytest.raises(ValueError, match="t.jsonl, line 2: expected characters. Received: half a surrogate pair"):
        predict_file(pipeline, tmp_path / "t.jsonl", tmp_path / "a.jsonl", keep=["note"])


def test_only_the_same_run_is_continued(pipeline, source, tmp_path, monkeypatch):
    stop(pipeline, source, tmp_path / "answers.jsonl", monkeypatch, KeyboardInterrupt())
    other = kbert.build_pipeline(pipeline.model, tiny_tokenizer(), labels=["no", "yes"])
    for changed, arguments in (("batch_size", {"batch_size": 4}), ("keep", {"keep": []})):
        with pytest.raises(FileExistsError, match=rf"an unfinished run with other settings \({changed}: .*--overwrite"):
            run(pipeline, source, tmp_path / "answers.jsonl", **arguments)
    half = kbert.BertClassifier(tiny_config(num_layers=1), dtype="mixed_bfloat16")
    half.set_weights(pipeline.model.get_weights())
    tokens = tiny_tokenizer().vocabulary
    reversed_words = kbert.BertTokenizer([*tokens[:5], *tokens[:4:-1]])
    of_half = kbert.build_pipeline(half, tiny_tokenizer(), labels=["bad", "good"])
    of_other_words = kbert.build_pipeline(pipeline.model, reversed_words, labels=["bad", "good"])
    for changed in (other, of_half, of_other_words):
        with pytest.raises(FileExistsError, match=r"with other settings \(pipeline: "):
            run(changed, source, tmp_path / "answers.jsonl")
    source.write_text(source.read_text().replace("never", "paris"))
    with pytest.raises(FileExistsError, match=r"with other settings \(source: "):
        run(pipeline, source, tmp_path / "answers.jsonl")
    assert run(other, source, tmp_path / "answers.jsonl", overwrite=True) == len(TEXTS)
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert {row["label"] for row in rows} <= {"no", "yes"} and len(rows) == len(TEXTS)
    with pytest.raises(FileExistsError, match="already exists; `overwrite`"):
        run(other, source, tmp_path / "answers.jsonl")


def test_one_process_at_a_time_writes_an_output(pipeline, source, tmp_path, monkeypatch):
    output, answer = tmp_path / "new" / "answers.jsonl", pipeline.predict_on_batch

    def answer_and_try(x):
        for directory in ("new", "link"):
            with pytest.raises(BlockingIOError, match=f"/new/answers.jsonl is in use by process {os.getpid()} on"):
                run(pipeline, source, tmp_path / directory / "answers.jsonl", overwrite=True)
        return answer(x)

    (tmp_path / "link").symlink_to("new")
    monkeypatch.setattr(pipeline, "predict_on_batch", answer_and_try)
    assert run(pipeline, source, output) == len(TEXTS) == len(output.read_text().splitlines())
    assert sorted(os.listdir(tmp_path / "new")) == ["answers.jsonl", "answers.jsonl.metrics.json"]


def test_the_second_of_two_waits_for_no_chance_to_replace_the_first(pipeline, source, tmp_path, monkeypatch):
    """It has looked for the output before the first began, and claims it when the first has ended."""
    lock = module.locked_output

    def lock_later(path):
        monkeypatch.setattr(module, "locked_output", lock)
        run(pipeline, source, path)
        return lock(path)

    monkeypatch.setattr(module, "locked_output", lock_later)
    with pytest.raises(FileExistsError, match="already exists; `overwrite`"):
        run(pipeline, source, tmp_path / "answers.jsonl")


def test_answers_that_are_gone_are_made_again(pipeline, source, tmp_path, monkeypatch):
    output = tmp_path / "answers.jsonl"
    run(pipeline, source, tmp_path / "whole.jsonl")
    stop(pipeline, source, output, monkeypatch, KeyboardInterrupt())
    min((tmp_path / "answers.jsonl.partial").glob("0*-*")).unlink()
    assert run(pipeline, source, output) == len(TEXTS)
    assert output.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_damaged_settings_are_named_and_overwritten(pipeline, source, tmp_path, monkeypatch):
    output = tmp_path / "answers.jsonl"
    stop(pipeline, source, output, monkeypatch, KeyboardInterrupt())
    (tmp_path / "answers.jsonl.partial" / "settings.json").write_text("{")
    with pytest.raises(ValueError, match="answers.jsonl.partial/settings.json: not JSON"):
        run(pipeline, source, output)
    assert run(pipeline, source, output, overwrite=True) == len(TEXTS)


def test_overwriting_resumes_the_same_run(pipeline, source, tmp_path, monkeypatch):
    output = tmp_path / "answers.jsonl"
    stop(pipeline, source, output, monkeypatch, KeyboardInterrupt())
    answered, answer = [], pipeline.predict_on_batch
    monkeypatch.setattr(pipeline, "predict_on_batch", lambda x: answered.append(len(x["text"])) or answer(x))
    assert run(pipeline, source, output, overwrite=True) == len(TEXTS)
    assert len(answered) == 3  # of five batches


def test_a_full_disk_is_named_and_the_same_call_resumes(pipeline, source, tmp_path, monkeypatch):
    """A limit of the size of a file, which the system enforces as it does the size of a disk."""
    run(pipeline, source, tmp_path / "whole.jsonl")
    output, answer = tmp_path / "answers.jsonl", pipeline.predict_on_batch
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    calls = []

    def answer_with_limit(x):
        calls.append(len(x["text"]))
        if len(calls) == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
        return answer(x)

    monkeypatch.setattr(module, "_SECONDS", -1.0)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "predict_on_batch", answer_with_limit)
        try:
            with pytest.raises(WriteFault, match=r"answers.jsonl.*: not written, file too large: .*MB are free there"):
                run(pipeline, source, output)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            signal.signal(signal.SIGXFSZ, before)
    assert done(output) == 10
    assert run(pipeline, source, output) == len(TEXTS)
    assert output.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_through_a_link_the_file_is_written_that_it_points_to(pipeline, source, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "answers.jsonl").symlink_to(tmp_path / "disk" / "stored")
    assert run(pipeline, source, tmp_path / "answers.jsonl") == len(TEXTS)  # of a link to nothing yet
    first = (tmp_path / "disk" / "stored").read_bytes()
    (tmp_path / "disk" / "stored").write_text("old")
    assert run(pipeline, source, tmp_path / "answers.jsonl", overwrite=True) == len(TEXTS)
    assert (tmp_path / "answers.jsonl").is_symlink()
    assert sorted(os.listdir(tmp_path / "disk")) == ["stored", "stored.metrics.json"]
    assert (tmp_path / "disk" / "stored").read_bytes() == first
    with pytest.raises(IsADirectoryError, match="`output` must be a file"):
        (tmp_path / "a.csv").mkdir()
        run(pipeline, source, tmp_path / "a.csv", overwrite=True)


@pytest.mark.parametrize(
    "name, content",
    [
        ("t.csv", 'text\r\nfirst\r\n""\r\nthird\r\n'),
        ("t.csv", "id,text\n1,first\n,\n3,third\n"),
        ("t.tsv", "id\ttext\n1\tfirst\n\t\n3\tthird\n"),
        ("t.txt", "first\n\nthird\n"),
        ("t.jsonl", '{"text": "first"}\n{"text": null}\n{"text": "third"}\n'),
    ],
)
def test_empty_rows_are_answered_and_counted(pipeline, tmp_path, caplog, name, content):
    (tmp_path / name).write_bytes(content.encode())
    assert predict_file(pipeline, tmp_path / name, tmp_path / "a.jsonl", batch_size=2) == 3
    answers = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [answer["text"] for answer in answers] == ["first", "", "third"]
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    line = {"t.csv": 3, "t.tsv": 3}.get(name, 2)
    message = f"1 of 3 texts in 'text' are empty, None, NaN or null (first: {tmp_path / name}, line {line})"
    assert len(warnings) == 1 and message in warnings[0]


def test_joined_texts_are_empty_if_all_their_columns_are(pipeline, tmp_path, caplog):
    (tmp_path / "t.csv").write_text("subject,body\nbad,film\n,film\nbad,\n,\n")
    columns = {"text": ["subject", "body"]}
    assert predict_file(pipeline, tmp_path / "t.csv", tmp_path / "a.jsonl", columns=columns) == 4
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert "1 of 4 texts in 'subject, body' are empty" in warning and "t.csv, line 5" in warning


def test_the_last_batch_is_filled_with_empty_rows(pipeline, tmp_path, monkeypatch):
    seen, answer = [], pipeline.predict_on_batch
    monkeypatch.setattr(pipeline, "predict_on_batch", lambda x: seen.append(list(x["text"])) or answer(x))
    (tmp_path / "t.txt").write_text("good\n" * 5 + "bad film\n")
    predict_file(pipeline, tmp_path / "t.txt", tmp_path / "a.jsonl", batch_size=4)
    assert seen == [["good"] * 4, ["good", "bad film", "", ""]]
    monkeypatch.setattr(pipeline, "max_rows", 3, raising=False)  # as an export has it
    predict_file(pipeline, tmp_path / "t.txt", tmp_path / "b.jsonl", batch_size=4)
    assert seen[2:] == [["good"] * 3, ["good", "good", "bad film"]]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.txt"])
def test_a_cell_that_is_too_large_is_named_before_the_work(pipeline, tmp_path, monkeypatch, name):
    monkeypatch.setattr("kbert.finetuning.prediction_rows._LONGEST", 1000)
    texts = ["a" * 1000, "b" * 1001]
    if name == "t.jsonl":
        (tmp_path / name).write_text("".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts))
    else:
        (tmp_path / name).write_text("text\n" * (name == "t.csv") + "\n".join(texts) + "\n")
    monkeypatch.setattr(pipeline, "predict_on_batch", None)
    line = 3 if name == "t.csv" else 2
    message = f"{name}, line {line}: expected at most 1,000 characters in 'text'. Received: 1,001"
    with pytest.raises(ValueError, match=message):
        predict_file(pipeline, tmp_path / name, tmp_path / "new" / "a.jsonl")
    assert os.listdir(tmp_path) == [name]


def test_a_line_or_cell_without_end_is_not_read_to_its_end(pipeline, tmp_path, monkeypatch):
    monkeypatch.setattr("kbert.tasks.table._LONGEST", 10_000)
    endless = "a" * 20_000 + "\n"
    for name, content in {
        "a.csv": "text\n" + endless,
        "b.csv": 'text\n"' + "many short lines\n" * 1000,  # a quotation mark that is not closed
        "c.tsv": "text\n" + endless,
        "d.jsonl": '{"text": "' + endless,
    }.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match="at most 10,000 bytes|field larger than field limit"):
            predict_file(pipeline, tmp_path / name, tmp_path / "a.jsonl")
    monkeypatch.setattr("kbert.corpus.corpus_files.LONGEST_LINE", 10_000)
    (tmp_path / "e.txt").write_text(endless)
    with pytest.raises(ValueError, match="e.txt, line 1: expected text in lines of at most 10,000 bytes"):
        predict_file(pipeline, tmp_path / "e.txt", tmp_path / "a.jsonl")


_ZIPPED = io.BytesIO()
with zipfile.ZipFile(_ZIPPED, "w") as _archive:
    _archive.writestr("[Content_Types].xml", "<Types/>\n")


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.txt", "good film\nbad film\n".encode("utf-16")),
        ("a.png", b"\x89PNG\r\n\x1a\n" + np.random.default_rng(0).bytes(1000)),
        ("a.xlsx", _ZIPPED.getvalue()),
        ("a.csv.gz", gzip.compress(b"text\ngood film\n", mtime=0)),
    ],
)
def test_lines_of_what_is_no_text_are_not_answered(pipeline, tmp_path, name, content):
    """They were, and nothing said so."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}.* (binary data|UTF-16|PDF|an office document|not compressed)"):
        predict_file(pipeline, tmp_path / name, tmp_path / "new" / "a.jsonl")
    assert os.listdir(tmp_path) == [name]


def test_compressed_lines_are_answered(pipeline, tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"good film\r\nbad film\n", mtime=0))
    assert predict_file(pipeline, tmp_path / "a.txt.gz", tmp_path / "a.jsonl") == 2
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == ["good film", "bad film"]


@pytest.mark.parametrize("change", ["longer", "shorter", "edited", "gone"])
def test_a_source_that_changes_while_it_is_read_is_an_error(pipeline, tmp_path, monkeypatch, change):
    """It ended with exit status 0, and more or fewer answers than the source had rows."""
    source = tmp_path / "t.csv"
    source.write_text("text\n" + f"good {'film ' * 100}\n" * 2000)
    answer = pipeline.predict_on_batch

    def change_and_answer(x):
        monkeypatch.setattr(pipeline, "predict_on_batch", answer)
        if change == "longer":
            with open(source, "a") as file:
                file.write("bad film\n")
        elif change == "shorter":
            os.truncate(source, source.stat().st_size // 2)
        elif change == "edited":
            with open(source, "r+") as file:
                file.write("text\nbad!")
        else:
            source.unlink()
        return answer(x)

    monkeypatch.setattr(pipeline, "predict_on_batch", change_and_answer)
    with pytest.raises(ValueError, match="t.csv(, line .*expected| changed while it was read)"):
        predict_file(pipeline, source, tmp_path / "a.jsonl", batch_size=500)
    assert not (tmp_path / "a.jsonl").exists()


def test_the_inputs_are_not_replaced_by_their_answers(pipeline, source, tmp_path):
    before = source.read_bytes()
    (tmp_path / "link.csv").symlink_to(source)
    for output in (source, tmp_path / "link.csv"):
        with pytest.raises(ValueError, match="`output` must differ from `source`"):
            run(pipeline, source, output, overwrite=True)
    assert source.read_bytes() == before
    for name in ("none.csv", "none.txt"):
        with pytest.raises(
            FileNotFoundError, match=f"Expected a file of inputs. Received: .*{name}', which is not a file"
        ):
            predict_file(pipeline, tmp_path / name, tmp_path / "a.jsonl")


def test_an_output_that_another_program_wrote_meanwhile_is_not_replaced(pipeline, source, tmp_path, monkeypatch):
    output, answer = tmp_path / "a.jsonl", pipeline.predict_on_batch
    monkeypatch.setattr(pipeline, "predict_on_batch", lambda x: (output.write_text("mine"), answer(x))[1])
    with pytest.raises(FileExistsError, match="a.jsonl already exists"):
        run(pipeline, source, output)
    assert output.read_text() == "mine"


@pytest.mark.parametrize("name", ["a.jsonl.partial", ".a.jsonl.lock"])
def test_links_beside_the_output_are_not_written_through(pipeline, source, tmp_path, name):
    """Whoever may write to the directory could have had any file of the user's emptied."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "precious").write_text("precious")
    (tmp_path / name).symlink_to("directory" if name == "a.jsonl.partial" else "directory/precious")
    with pytest.raises(OSError, match=r"a\.jsonl\.partial, a link|symbolic links.*\.a\.jsonl\.lock"):
        run(pipeline, source, tmp_path / "a.jsonl", overwrite=True)
    assert (tmp_path / "directory" / "precious").read_text() == "precious"


def test_a_directory_beside_the_output_is_left_alone(pipeline, source, tmp_path):
    (tmp_path / "a.jsonl.partial" / "precious").mkdir(parents=True)
    with pytest.raises(FileExistsError, match="a.jsonl.partial holds other files than a run's"):
        run(pipeline, source, tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl.partial" / "precious").is_dir()


KILLS = [(os, "replace", number) for number in (1, 2, 3, 4, 5)]
KILLS += [(module, "flush", 1), (module, "_delete", 1), (shutil, "rmtree", 1)]  # the output is in place


@pytest.mark.parametrize("owner, operation, number", KILLS)
def test_a_run_killed_at_its_end_is_finished_or_called_finished(
    pipeline, source, tmp_path, monkeypatch, owner, operation, number
):
    """It had its output, and was told that this existed; its parts stayed. Every kill: faults/random_kills.py."""
    run(pipeline, source, tmp_path / "whole.jsonl")
    output, join, operate, calls = tmp_path / "answers.jsonl", module._Answers.join, getattr(owner, operation), []
    monkeypatch.setattr(module, "_SECONDS", -1.0)

    def operate_or_die(*arguments):
        calls.append(arguments)
        if len(calls) == number:
            raise KeyboardInterrupt
        return operate(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            module._Answers,
            "join",
            lambda *arguments: (patch.setattr(owner, operation, operate_or_die), join(*arguments)),
        )
        run(pipeline, source, output)
    assert (tmp_path / "answers.jsonl.partial").exists() and output.exists() == (operation != "replace")
    if output.exists():
        with pytest.raises(FileExistsError, match="answers.jsonl already exists"):
            run(pipeline, source, output)
    else:
        assert run(pipeline, source, output) == len(TEXTS)
    assert output.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    names = ["answers.jsonl", "answers.jsonl.metrics.json", "texts.csv", "whole.jsonl", "whole.jsonl.metrics.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_progress_says_how_much_there_is(pipeline, source, tmp_path, monkeypatch, caplog):
    stop(pipeline, source, tmp_path / "answers.jsonl", monkeypatch, KeyboardInterrupt())
    clock = iter(range(0, 1000, 11))
    monkeypatch.setattr(callbacks, "time", types.SimpleNamespace(perf_counter=lambda: float(next(clock))))
    caplog.clear()
    with caplog.at_level("INFO", logger="kbert"):
        run(pipeline, source, tmp_path / "answers.jsonl")
    lines = [record.getMessage() for record in caplog.records]
    # Of 24 rows 10 were done before: five take 11 seconds.
    assert lines[1] == f"15 of {len(TEXTS)} rows predicted, 0:00:{11 * (len(TEXTS) - 15) // 5:02d} left"


def test_a_kept_column_is_not_replaced_by_an_answer(pipeline, tmp_path):
    """Answers of a first model are the input of a second; as cells of a table answers have names of their own."""
    (tmp_path / "t.csv").write_text("text,probability_bad\na,0.5\n")
    keep = ["probability_bad"]
    with pytest.raises(ValueError, match="have the names of answers: .'probability_bad'"):
        run(pipeline, tmp_path / "t.csv", tmp_path / "answers.csv", keep=keep)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    assert run(pipeline, tmp_path / "t.csv", tmp_path / "answers.jsonl", keep=keep) == 1


def test_an_error_in_the_rows_leaves_nothing(pipeline, tmp_path):
    (tmp_path / "table.csv").write_text("text,label\ngood,1\n")
    with pytest.raises(ValueError, match="have the names of answers: .'label'"):
        predict_file(pipeline, tmp_path / "table.csv", tmp_path / "new/answers.jsonl", keep=["label"])
    with pytest.raises(ValueError, match=r"Expected `columns` of the inputs \['text'\].* Received: \['txt'\]"):
        predict_file(pipeline, tmp_path / "table.csv", tmp_path / "new/answers.jsonl", columns={"txt": "label"})
    with pytest.raises(ValueError, match="`format` is not for the inputs of a classification model"):
        predict_file(pipeline, tmp_path / "table.csv", tmp_path / "new/answers.jsonl", format="swag")
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl"])
def test_a_table_is_read_as_it_is_answered(tmp_path, name):
    """The rows of `read_table`, but not all at once; from any row on."""
    rows = [{"id": str(n), "text": f"text {n} {'word ' * 100}"} for n in range(4000)]
    with open(tmp_path / name, "w") as file:
        if name == "t.jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            separator = "," if name == "t.csv" else "\t"
            file.writelines(separator.join(row) + "\n" for row in [["id", "text"], *(row.values() for row in rows)])
    found = Rows(functools.partial(table_rows, tmp_path / name, ["text"], ["id"]))
    assert len(found) == 4000
    assert [row for batch in found.batches(0, 64) for row in batch] == rows
    assert next(found.batches(3990, 64)) == rows[3990:] and list(found.batches(4000, 64)) == []
    tracemalloc.start()
    for _ in Rows(functools.partial(table_rows, tmp_path / name, ["text"], [])).batches(0, 10):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500_000 < (tmp_path / name).stat().st_size / 4
