"""Predictions of a file by Apache Beam: the file of one process, the model loaded once in each worker."""

import functools
import importlib
import json
import os

import pytest
from helpers.paths import ROOT
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.finetuning.predict_file import predict_file, predict_file_with_beam
from kbert.serving.exported_pipeline import load_pipeline

module = importlib.import_module("kbert.finetuning.predict_file")  # its name means the function
pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("apache_beam")]
TEXTS = [f'{word} "film", {"very " * (n % 4)}good' for n, word in enumerate(["the", "a", "bad", "never"] * 6)]
TWO_PROCESSES = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A directory with a kbert directory, and an export."""
    path = tmp_path_factory.mktemp("models")
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1)))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["bad", "good"])
    kbert.save_pretrained(pipeline, path / "stored")
    kbert.export(pipeline, path / "exported")
    return path


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PART_ROWS", 5)  # of 24: five parts
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(TEXTS)))
    return path


def load_and_count(models, directory):
    """Loads the model, and leaves a file for each time that a process does."""
    number = len(list(directory.glob(f"{os.getpid()}-*")))
    (directory / f"{os.getpid()}-{number}").touch()
    return load_pipeline(models / "stored")


def run(load, source, output, **arguments):
    return predict_file_with_beam(
        load, source, output, **{"runner": "DirectRunner", "keep": ["id"], "batch_size": 5, **arguments}
    )


@pytest.mark.slow  # in this process: test_a_table_and_a_run_that_goes_on
def test_two_processes_answer_as_one(models, source, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, ROOT / "tests"))))  # the workers import this file
    loads, shared = tmp_path / "loads", tmp_path / "shared"
    loads.mkdir()
    load = functools.partial(load_and_count, models, loads)
    found = tmp_path / "new/answers.jsonl"
    assert run(load, source, found, beam_flags=TWO_PROCESSES, shared=shared) == len(TEXTS)
    numbers = [path.name.split("-") for path in loads.iterdir()]
    assert 2 <= len(numbers) <= 3 and {number for _, number in numbers} == {"0"}  # this process, and each worker
    predict_file(load_pipeline(models / "stored"), source, tmp_path / "plain.jsonl", keep=["id"], batch_size=5)
    assert found.read_bytes() == (tmp_path / "plain.jsonl").read_bytes()
    assert list(shared.iterdir()) == [] and list(found.parent.iterdir()) == [found]


def test_a_table_and_a_run_that_goes_on(models, source, tmp_path, monkeypatch):
    (loads := tmp_path / "loads").mkdir()
    load = functools.partial(load_and_count, models, loads)
    predict_file(load_pipeline(models / "stored"), source, tmp_path / "plain.csv", keep=["id"], batch_size=5)
    answer, output = module._answer_part, tmp_path / "answers.csv"

    def stop(job, number):
        if number == 3:
            raise OSError("the machine is gone")
        return answer(job, number)

    with monkeypatch.context() as stopped:
        stopped.setattr(module, "_answer_part", stop)
        with pytest.raises(RuntimeError, match="the machine is gone"):
            run(load, source, output)
    assert not output.exists()
    done = {path.name for path in tmp_path.glob("answers.csv.parts/*/answers-*")}
    assert done and "answers-000003" not in done
    with pytest.raises(ValueError, match="Received: 'DirectRuner'"):
        run(load, source, output, runner="DirectRuner")
    assert done == {path.name for path in tmp_path.glob("answers.csv.parts/*/answers-*")}
    before = len(list(loads.iterdir()))
    assert run(load, source, output) == len(TEXTS) and len(list(loads.iterdir())) == before + 1  # for all its parts
    assert output.read_bytes() == (tmp_path / "plain.csv").read_bytes()
    assert not (tmp_path / "answers.csv.parts").exists()
    with pytest.raises(FileExistsError, match="--overwrite"):
        run(load, source, output)


def test_an_error_in_the_rows_leaves_nothing(models, tmp_path):
    (tmp_path / "table.csv").write_text("text,label\ngood,1\n")
    load = functools.partial(load_pipeline, models / "stored")
    with pytest.raises(ValueError, match="have the names of answers: .'label'"):
        run(load, tmp_path / "table.csv", tmp_path / "new/answers.jsonl", keep=["label"])
    with pytest.raises(ValueError, match="Received: 'NoSuchRunner'"):
        run(load, tmp_path / "table.csv", tmp_path / "new/answers.jsonl", runner="NoSuchRunner", keep=[])
    with pytest.raises(ValueError, match="Received: --direct_num_workers=two. Beam: .*invalid int"):
        flags = ["--direct_num_workers=two"]
        run(load, tmp_path / "table.csv", tmp_path / "new/answers.jsonl", beam_flags=flags, keep=[])
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_workers_must_find_the_same_model(models, source, tmp_path):
    job = module._Job(functools.partial(load_pipeline, models / "stored"), "another", {}, 5, ".csv")
    job.shared = module.SharedDirectory(tmp_path / "shared")
    job.shared.open()
    with pytest.raises(RuntimeError, match="find the model of the starting program. Received: another model"):
        job.pipeline()


def test_the_recipe_answers_with_an_export(models, tmp_path):
    """With a runner and without one."""
    from helpers.run_recipe import read_json, run_kbert

    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    flags = ("--source", models / "exported", "--input", tmp_path / "texts.txt", "--batch-size", 5)
    run_kbert("predict", *flags, "--output", tmp_path / "plain.jsonl")
    run_kbert(
        "predict", *flags, "--output", tmp_path / "beam.jsonl", "--runner", "DirectRunner", "--", "--job_name=answers"
    )
    assert (tmp_path / "beam.jsonl").read_bytes() == (tmp_path / "plain.jsonl").read_bytes()
    assert read_json(tmp_path / "beam.jsonl.metrics.json")["settings"]["runner"] == "DirectRunner"
    rows = [json.loads(line) for line in (tmp_path / "beam.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == TEXTS and {row["label"] for row in rows} <= {"bad", "good"}
    with pytest.raises(SystemExit, match=r"exported is a SavedModel, whose settings are fixed. Received: \['top_k'"):
        run_kbert("predict", *flags, "--output", tmp_path / "no.jsonl", "--top-k", 3)
    with pytest.raises(SystemExit, match=r"settings are fixed. Received: \['precision'\]"):
        run_kbert("predict", *flags, "--output", tmp_path / "no.jsonl", "--precision", "float32")
