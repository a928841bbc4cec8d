"""GLUE by the command: seeds, rates, the table, a killed call, all tasks."""

import contextlib
import importlib
import inspect
import io
import json
import re
import shutil
import types

import numpy as np
import pytest
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json, run_kbert
from helpers.toy_glue import glue_arguments, write_glue_home
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.cli import parse_call
from kbert.commands import COMMANDS
from kbert.options import record, to_json
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, describe_scores
from kbert.training import dry_run

SEEDS = ("--train-examples", 16, "--epochs", 1, "--seeds", 3, 4, "--dropout", 0)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_glue_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def mrpc(home):
    """The output of one run on MRPC, and what was printed."""
    printed = io.StringIO()
    with run_eagerly(), contextlib.redirect_stdout(printed):
        run_kbert("glue", *glue_arguments(home, "mrpc", home / "mrpc", "--steps", 3, "--json"))
    return home / "mrpc", printed.getvalue()


@pytest.fixture
def copies(mrpc, monkeypatch):
    """Instead of training, each run is a copy of that on MRPC, with a score of its own: the list of them."""
    grid, made = importlib.import_module("kbert.finetuning.grid"), []
    (run,) = (mrpc[0] / "MRPC").glob("rate-*")

    def copy(source, task, train, dev, output, **options):
        shutil.copytree(run, output)
        metrics = read_json(run / "metrics.json") | {"train_examples": len(train)}
        metrics["dev"][task.metrics[0]] = len(made) / 10
        made.append(metrics["dev"][task.metrics[0]])
        return types.SimpleNamespace(metrics=metrics, pipeline=types.SimpleNamespace(model=None))

    monkeypatch.setattr(grid, "finetune", copy)
    return made


def defaults(function):
    """The defaults of its parameters."""
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("words", [(), ("glue",)])
def test_settings_of_a_run_are_a_configuration(mrpc, words, capsys):
    (path,) = (mrpc[0] / "MRPC").glob("rate-*/settings.json")
    values, _ = parse_call("kbert finetune", COMMANDS["finetune"], [*words, "--config", str(path)])
    settings = read_json(path)
    again = to_json(record(kbert.finetune, defaults(kbert.finetune) | values))
    assert again | {"task": values["task"].to_dict()} == settings
    task = values["task"]
    assert len(task.examples(values["train"])) == 60 and len(task.examples(values["dev"], dev=True)) == 20
    with pytest.raises(SystemExit, match="2"):
        run_kbert("finetune", "tagging", "--config", path, "--output", path.parent / "other")
    assert re.search("error: --config .*settings.json: unknown option `name`", capsys.readouterr().err)


def test_one_run_of_a_pair_task(mrpc):
    path, printed = mrpc
    result = read_json(path / "glue.json")
    assert json.loads(printed.splitlines()[-1]) == result
    grid = result["tasks"]["MRPC"]
    dev = grid["best"]["dev"]
    assert set(dev) == {"examples", "loss", "f1", "accuracy", "labels"} and result["average"] is None
    rows = {line[:42].strip(): line[42:].split() for line in printed.splitlines()}
    assert rows["MRPC"] == ["f1", "accuracy"]
    assert rows["paper: BERT-base, test"] == ["88.9", "-"]
    assert rows["paper: BERT-base, dev"] == ["-", "86.7"]
    assert rows["a constant answer, dev"] == [f"{100 * grid['constant_answer'][m]:.1f}" for m in ("f1", "accuracy")]
    assert rows["this run, dev (60 examples)"] == [f"{100 * dev[m]:.1f}" for m in ("f1", "accuracy")]
    assert kbert.load_pretrained(path / "MRPC").pretrained.settings.task.pair


@pytest.fixture(scope="module")
def seeds(home):
    with run_eagerly():
        run_kbert("glue", *glue_arguments(home, "SST-2", home / "seeds", *SEEDS))
    return home / "seeds"


def test_seeds_are_summed_up_and_the_best_is_kept(seeds):
    grid = read_json(seeds / "SST-2" / "grid.json")
    runs = {run["seed"]: read_json(seeds / "SST-2" / run["folder"] / "metrics.json") for run in grid["runs"]}
    losses = [runs[seed]["dev"]["loss"] for seed in (3, 4)]
    accuracies = [runs[seed]["dev"]["accuracy"] for seed in (3, 4)]
    (settings,) = grid["settings"]
    assert losses[0] != losses[1]
    assert settings["mean"]["loss"] == pytest.approx(np.mean(losses))
    assert settings["deviation"]["loss"] == pytest.approx(np.std(losses, ddof=1))
    assert grid["best"]["seed"] == (3 if accuracies[0] >= accuracies[1] else 4)
    assert (grid["train_examples"], grid["best"]["learning_rate"]) == (16, 0.01)
    best = seeds / "SST-2" / grid["best"]["folder"]
    for name in ("config.json", "model.safetensors", "kbert.json"):
        assert (seeds / "SST-2" / "model" / name).read_bytes() == (best / "model" / name).read_bytes()


@pytest.mark.usefixtures("eagerly")
def test_a_killed_call_repeats_only_what_is_not_finished(home, seeds, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        dry_run, "mean_seconds_per_step", lambda *arguments: 0.1
    )  # measured: test_finetune_classifier.py
    shutil.copytree(seeds, tmp_path / "run")
    (second,) = (tmp_path / "run" / "SST-2").glob("*-seed-4")
    shutil.rmtree(second)
    arguments = glue_arguments(home, "SST-2", tmp_path / "run", *SEEDS)
    run_kbert("glue", *arguments, "--dry-run")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["SST-2: 1 runs left", "16 examples in 16 rows"] and lines[-1].startswith("time: about")
    assert not second.exists()
    (first,) = (tmp_path / "run" / "SST-2").glob("*-seed-3/metrics.json")
    before = first.read_bytes()
    run_kbert("glue", *arguments)
    assert first.read_bytes() == before
    assert read_json(tmp_path / "run" / "glue.json") == read_json(seeds / "glue.json")


def test_rates_are_a_grid(home, tmp_path, copies):
    more = ("--train-examples", 16, "--steps", 2, "--seeds", 0, 1, "--learning-rates", 1e-2, 1e-5, "--dropout", 0)
    grid = run_kbert("glue", *glue_arguments(home, "CoLA", tmp_path, *more))["tasks"]["CoLA"]
    assert [each["learning_rate"] for each in grid["settings"]] == [1e-2, 1e-5] and len(grid["runs"]) == 4
    assert grid["best"]["dev"]["matthews"] == max(run["dev"]["matthews"] for run in grid["runs"]) == copies[-1] > 0
    lines = describe_scores(GLUE_TASKS["CoLA"], grid).splitlines()
    assert [line.split(",")[0] for line in lines[-4:-2]] == ["rate 0.01", "rate 1e-05"]
    assert lines[-2].startswith("the best run, dev") and lines[-1].startswith("this run, dev (16 examples, 2 seeds)")
    assert " ± " in lines[-1] and len({len(line) for line in lines}) == 1


@pytest.fixture(scope="module")
def everything(home):
    more = ("--steps", 1, "--train-examples", 8, "--dropout", 0)
    run_kbert("glue", *glue_arguments(home, "all", home / "everything", *more))
    return home / "everything"


@pytest.mark.slow
def test_all_tasks_and_the_average(everything):
    result = read_json(everything / "glue.json")
    assert set(result["tasks"]) == set(GLUE_TASKS)
    dev = {name: grid["best"]["dev"] for name, grid in result["tasks"].items()}
    assert set(dev["MNLI"]) == {"examples", "loss", "accuracy", "accuracy_mm", "labels"}
    assert set(result["tasks"]["MNLI"]["constant_answer"]) == {"accuracy", "accuracy_mm"}
    nine = [dev["CoLA"]["matthews"], dev["STS-B"]["spearman"], dev["MRPC"]["f1"], dev["QQP"]["f1"]]
    nine += [dev[name]["accuracy"] for name in ("SST-2", "MNLI", "QNLI", "RTE")] + [dev["MNLI"]["accuracy_mm"]]
    assert result["average"] == pytest.approx(100 * np.mean(nine))
    assert kbert.load_pretrained(everything / "RTE").pretrained.settings.task.labels == ("entailment", "not_entailment")


@pytest.mark.usefixtures("eagerly")
def test_absent_tasks_are_left_out(home, tmp_path, capsys, copies):
    for name in ("MRPC", "QQP"):  # two tasks with the same labels
        shutil.copytree(home / "glue" / name, tmp_path / "glue" / name)
    more = ("--directory", tmp_path / "glue", "--steps", 1, "--train-examples", 8)
    result = run_kbert("glue", *glue_arguments(home, "all", tmp_path / "run", *more))
    assert "has no folder for CoLA, SST-2" in capsys.readouterr().err
    assert list(result["tasks"]) == ["MRPC", "QQP"] and result["average"] is None and len(copies) == 2


def test_what_is_wrong_is_said_before_anything_is_written(home, tmp_path, monkeypatch):
    monkeypatch.chdir(home)
    for name in ("SST-2", "WNLI"):
        shutil.copytree(home / "glue" / name, home / "broken" / name)
    lines = (home / "broken" / "WNLI" / "train.tsv").read_text("utf-8").splitlines()
    (home / "broken" / "WNLI" / "train.tsv").write_text("\n".join([*lines[:5], "1\tone\ttwo"]) + "\n", "utf-8")
    wrong_inputs(
        lambda flags: run_kbert("glue", *glue_arguments(home, "all", tmp_path / "run", *flags)),
        (("--tasks", "MRPC", "--directory", "glue/SST-2"), "(MRPC.*Received: 'glue/SST-2'|missing)"),
        (("--directory", "init"), "expected folders of GLUE tasks"),
        (("--tasks", "XNLI"), "expected names of .*Received: 'XNLI'"),
        (("--directory", "broken"), "WNLI/train.tsv, line 6: expected 4 cells"),
        error=SystemExit,
        owner="error: .*",
    )
    assert not (tmp_path / "run").exists()
