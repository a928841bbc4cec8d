"""All tasks of GLUE in one command: the average, the submission, and what is absent or broken."""

import contextlib
import json
import shutil
import types
import zipfile

import numpy as np
import pytest
from helpers.run_recipe import read_json, run_recipe
from helpers.toy_glue import TEST_ROWS, glue_arguments, write_glue_home

import kbert
from kbert.locks import LOCK
from kbert.tasks.glue_benchmark import grid as glue_grid
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, SUBMISSION_FILES


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_glue_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def everything(home):
    flags = ("--steps", 1, "--train-examples", 8, "--submission", "--dropout", 0)
    run_recipe("finetune_glue", *glue_arguments(home, "all", home / "everything", *flags))
    return home / "everything"


@pytest.mark.slow
def test_all_tasks_and_the_average(everything):
    metrics = read_json(everything / "metrics.json")
    assert set(metrics["tasks"]) == set(GLUE_TASKS)
    dev = {name: one["dev"] for name, one in metrics["tasks"].items()}
    assert set(dev["MNLI"]) == {"examples", "loss", "accuracy", "accuracy_mm"}
    assert set(metrics["tasks"]["MNLI"]["constant_answer"]) == {"accuracy", "accuracy_mm"}
    assert set(dev["STS-B"]) == {"examples", "loss", "spearman", "pearson"}
    nine = [dev["CoLA"]["matthews"], dev["STS-B"]["spearman"], dev["MRPC"]["f1"], dev["QQP"]["f1"]]
    nine += [dev[name]["accuracy"] for name in ("SST-2", "MNLI", "QNLI", "RTE")] + [dev["MNLI"]["accuracy_mm"]]
    assert metrics["average"] == pytest.approx(100 * np.mean(nine))
    assert kbert.load_pretrained(everything / "RTE").pretrained.settings.labels == ["entailment", "not_entailment"]


@pytest.mark.slow
def test_the_submission(home, everything):
    with zipfile.ZipFile(everything / "submission" / "submission.zip") as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(files) == {f"{file}.tsv" for file in SUBMISSION_FILES}
    for file, task in SUBMISSION_FILES.items():
        assert (everything / "submission" / f"{file}.tsv").read_text() == files[f"{file}.tsv"]
        header, *lines = [line.split("\t") for line in files[f"{file}.tsv"].splitlines()]
        assert header == ["index", "prediction"]
        assert [line[0] for line in lines] == [str(n) for n in range(TEST_ROWS + (file == "QQP"))]
        test = task.read_test(home / "glue", file)
        columns = test.columns
        pipeline = kbert.build_pipeline(kbert.load_pretrained(everything / task.name))
        answers = pipeline.predict(columns, verbose=0)
        if task.regression:
            expected = np.clip(answers["score"], 0, 5)
            assert [float(line[1]) for line in lines] == pytest.approx(expected, abs=1e-3)
            assert all(len(line[1].split(".")[1]) == 3 for line in lines)
        else:
            assert [line[1] for line in lines] == answers["label"].tolist()


@pytest.mark.slow
def test_all_takes_up_after_the_tasks_that_are_done(home, everything, tmp_path, capsys):
    shutil.copytree(everything, tmp_path / "run")
    (tmp_path / "run" / "metrics.json").unlink()
    shutil.rmtree(tmp_path / "run" / "WNLI")
    flags = ("--steps", 1, "--train-examples", 8, "--submission", "--dropout", 0)
    before = (tmp_path / "run" / "CoLA" / "metrics.json").read_bytes()
    run_recipe("finetune_glue", *glue_arguments(home, "all", tmp_path / "run", *flags))
    assert (tmp_path / "run" / "CoLA" / "metrics.json").read_bytes() == before
    one, two = (read_json(path / "metrics.json")["tasks"]["WNLI"]["dev"] for path in (everything, tmp_path / "run"))
    assert one == two
    assert "QQP, train: 2 rows" not in capsys.readouterr().err  # only what is trained is read


@pytest.mark.usefixtures("eagerly")
def test_all_leaves_absent_tasks_out(home, tmp_path, capsys, monkeypatch):
    for name in ("CoLA", "RTE"):
        shutil.copytree(home / "glue" / name, tmp_path / "glue" / name)
    more = ("--data", tmp_path / "glue", "--steps", 1, "--train-examples", 8, "--submission")
    run_recipe("finetune_glue", *glue_arguments(home, "all", tmp_path / "run", *more))
    printed = capsys.readouterr()
    assert "has no folder for SST-2, MRPC" in printed.err and "The server also requires SST-2, MRPC" in printed.out
    assert len((tmp_path / "run" / "submission" / "RTE.tsv").read_text().splitlines()) == 1 + TEST_ROWS
    metrics = read_json(tmp_path / "run" / "metrics.json")
    assert list(metrics["tasks"]) == ["CoLA", "RTE"] and metrics["average"] is None
    shutil.rmtree(tmp_path / "run" / "submission")  # as if killed before it was written
    (tmp_path / "run" / "metrics.json").rename(tmp_path / "metrics.json")  # nor this, though both tasks are done
    run_recipe("finetune_glue", *glue_arguments(home, "all", tmp_path / "run", *more, "--dry-run"))
    assert capsys.readouterr().out == f"Nothing is left to train in {tmp_path / 'run'}.\n"
    (tmp_path / "metrics.json").rename(tmp_path / "run" / "metrics.json")
    submitted = []
    monkeypatch.setattr(glue_grid, "submit", lambda *arguments: submitted.append(arguments))
    run_recipe("finetune_glue", *glue_arguments(home, "all", tmp_path / "run", *more, "--json"))
    assert submitted[0][0] == {name: [tmp_path / "run" / name / "model"] for name in ("CoLA", "RTE")}
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == metrics
    (tmp_path / "glue" / "RTE" / "dev.tsv").unlink()
    with pytest.raises(SystemExit, match="error: .*RTE/dev.tsv"):
        run_recipe("finetune_glue", *glue_arguments(home, "all", tmp_path / "other", *more))


@pytest.mark.usefixtures("eagerly")
def test_all_reads_every_file_before_it_trains(home, tmp_path):
    for name in ("SST-2", "WNLI"):
        shutil.copytree(home / "glue" / name, tmp_path / "glue" / name)
    file = tmp_path / "glue" / "WNLI" / "train.tsv"
    whole = file.read_text("utf-8").splitlines()
    more = ("--data", tmp_path / "glue", "--steps", 1, "--train-examples", 20)
    file.write_text("\n".join([*whole[:5], "1\tone\ttwo"]) + "\n", "utf-8")
    with pytest.raises(SystemExit, match="error: .*WNLI/train.tsv, line 6: expected 4 cells"):
        run_recipe("finetune_glue", *glue_arguments(home, "all", tmp_path / "run", *more))
    assert not (tmp_path / "run").exists()
    shutil.rmtree(tmp_path / "glue" / "SST-2")
    file.write_text("\n".join(whole[:11]) + "\n", "utf-8")  # fewer than are to be learnt from: all of them
    run_recipe("finetune_glue", *glue_arguments(home, "all", tmp_path / "run", *more))
    tasks = read_json(tmp_path / "run" / "metrics.json")["tasks"]
    assert {name: one["train_examples"] for name, one in tasks.items()} == {"WNLI": 10}


def test_only_the_first_worker_locks_the_directory_of_a_submission(tmp_path, monkeypatch):
    there = []
    monkeypatch.setattr(glue_grid, "submit", lambda *arguments: there.append([p.name for p in tmp_path.iterdir()]))
    for is_chief in (False, True):
        hardware = types.SimpleNamespace(is_chief=is_chief, scope=contextlib.nullcontext)
        worker = types.SimpleNamespace(hardware=hardware, models={}, directory=tmp_path, output=tmp_path)
        glue_grid.GlueGrid.submit(worker)
    assert there == [[], [LOCK]]
