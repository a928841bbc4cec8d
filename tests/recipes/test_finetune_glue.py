"""GLUE fine-tuning: restarts, the table, and a run taken up between two restarts."""

import json
import shutil
import weakref

import numpy as np
import pytest
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import as_flags, read_json, run_recipe, run_recipe_alone
from helpers.toy_glue import glue_arguments, write_glue_home

import kbert
from kbert.tasks import text_task
from kbert.tasks.glue_benchmark import grid as glue_grid
from kbert.tasks.glue_benchmark.table import describe_scores
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS

RESTARTS = ("--train-examples", 40, "--epochs", 1, "--restarts", 2, "--seed", 3, "--dropout", 0)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_glue_home(tmp_path_factory.mktemp("home"))


@pytest.mark.usefixtures("eagerly")
def test_one_run_of_a_pair_task(home, tmp_path, capsys):
    run_recipe("finetune_glue", *glue_arguments(home, "mrpc", tmp_path / "run", "--steps", 3, "--json"))
    printed = capsys.readouterr().out
    metrics = read_json(tmp_path / "run" / "metrics.json")
    assert json.loads(printed.splitlines()[-1]) == metrics
    assert set(metrics["dev"]) == {"examples", "loss", "f1", "accuracy"}
    rows = {line[:42].strip(): line[42:].split() for line in printed.splitlines()}
    assert rows["MRPC"] == ["f1", "accuracy"]
    assert rows["paper: BERT-base, test"] == ["88.9", "-"]
    assert rows["paper: BERT-base, dev"] == ["-", "86.7"]
    assert rows["a constant answer, dev"] == [f"{100 * metrics['constant_answer'][m]:.1f}" for m in ("f1", "accuracy")]
    assert rows["this run, dev (60 examples)"] == [f"{100 * metrics['dev'][m]:.1f}" for m in ("f1", "accuracy")]
    assert kbert.load_pretrained(tmp_path / "run").pretrained.settings.pair


@pytest.fixture(scope="module")
def watched():
    """How many earlier models were alive when each of `restarted` was built."""
    return []


@pytest.fixture(scope="module")
def restarted(home, watched):
    built = []

    class Watched(glue_grid.Finetuning):
        def __init__(self, *arguments, **options):
            watched.append(sum(model() is not None for model in built))
            super().__init__(*arguments, **options)
            built.append(weakref.ref(self.pipeline.model))

    with run_eagerly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(glue_grid, "Finetuning", Watched)
        run_recipe("finetune_glue", *glue_arguments(home, "SST-2", home / "restarted", *RESTARTS))
    return home / "restarted"


def test_a_restarts_model_is_gone_before_the_next_is_built(restarted, watched):
    assert len(watched) > 1 and not any(watched)


def test_restarts_are_summed_up(restarted):
    metrics = read_json(restarted / "metrics.json")
    each = {seed: read_json(restarted / f"seed-{seed}" / "metrics.json") for seed in (3, 4)}
    losses = [one["dev"]["loss"] for one in each.values()]
    accuracies = [one["dev"]["accuracy"] for one in each.values()]
    assert losses[0] != losses[1]
    assert metrics["dev"]["loss"] == pytest.approx(np.mean(losses))
    assert metrics["dev"]["accuracy"] == pytest.approx(np.mean(accuracies))
    assert metrics["deviation"]["loss"] == pytest.approx(np.std(losses, ddof=1))
    assert metrics["best_seed"] == (3 if accuracies[0] >= accuracies[1] else 4)
    assert metrics["restarts"] == {str(seed): one["dev"] for seed, one in each.items()}
    assert (metrics["train_examples"], metrics["steps"], metrics["learning_rate"]) == (40, 5, 0.01)


def test_the_best_restart_is_kept(restarted):
    best = restarted / f"seed-{read_json(restarted / 'metrics.json')['best_seed']}"
    for name in ("config.json", "model.weights.h5", "manifest.json"):
        assert (restarted / "model" / name).read_bytes() == (best / "model" / name).read_bytes()


@pytest.mark.usefixtures("eagerly")
def test_a_dry_run_counts_what_is_left(home, restarted, tmp_path, capsys):
    shutil.copytree(restarted, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "seed-4")
    (tmp_path / "run" / "metrics.json").unlink()
    run_recipe("finetune_glue", *glue_arguments(home, "SST-2", tmp_path / "run", *RESTARTS, "--dry-run"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["1 run:", "40 examples in 40 rows"]
    assert lines[3].startswith("5 steps of 8 rows of 8 tokens") and lines[-1].startswith("time: about")
    assert not (tmp_path / "run" / "seed-4").exists()


@pytest.mark.usefixtures("eagerly")
def test_broken_off_in_the_second_restart(home, restarted, tmp_path, monkeypatch, capsys):
    whole = text_task.training_dataset
    arguments = glue_arguments(home, "SST-2", tmp_path / "run", *RESTARTS)
    shutil.copytree(restarted, tmp_path / "run")  # as if killed after the first restart
    for there in ("seed-4", "model"):
        shutil.rmtree(tmp_path / "run" / there)
    (tmp_path / "run" / "metrics.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(text_task, "training_dataset", lambda *a, **k: whole(*a, **k).take(1))
        with pytest.raises(ValueError, match="ended after step 1"):
            run_recipe("finetune_glue", *arguments)
    first = (tmp_path / "run" / "seed-3" / "metrics.json").read_bytes()
    run_recipe("finetune_glue", *arguments)
    assert (tmp_path / "run" / "seed-3" / "metrics.json").read_bytes() == first
    received, expected = (read_json(path / "metrics.json") for path in (tmp_path / "run", restarted))
    del received["minutes"], expected["minutes"]
    assert received == expected


@pytest.mark.slow  # a process of its own; other recipes: test_two_replicas.py
def test_two_replicas_are_one(home, restarted, tmp_path):
    arguments = glue_arguments(
        home, "SST-2", tmp_path / "run", *RESTARTS, "--strategy", "mirrored", "--logical-cpus", 2
    )
    assert "mirrored: 2 replicas" in run_recipe_alone("finetune_glue", *arguments)
    one, two = (read_json(path / "metrics.json")["restarts"] for path in (restarted, tmp_path / "run"))
    assert one["3"] == pytest.approx(two["3"], abs=1e-4)
    assert one["4"] == pytest.approx(two["4"], abs=1e-4)


@pytest.fixture(scope="module")
def grid(home):
    flags = ("--train-examples", 16, "--steps", 2, "--restarts", 2, "--learning-rate", "1e-2,1e-5", "--dropout", 0)
    with run_eagerly():
        run_recipe("finetune_glue", *glue_arguments(home, "CoLA", home / "grid", *flags))
    return home / "grid"


def test_the_grid_keeps_the_best_run(grid):
    metrics = read_json(grid / "metrics.json")
    names = [f"rate-{rate}-seed-{seed}" for rate in ("0.01", "1e-05") for seed in (0, 1)]
    dev = {name: read_json(grid / name / "metrics.json")["dev"] for name in names}
    best = max(names, key=lambda name: dev[name]["matthews"])
    assert f"rate-{metrics['learning_rate']:g}-seed-{metrics['best_seed']}" == best
    assert metrics["best"] == dev[best]
    assert (grid / "model" / "model.weights.h5").read_bytes() == (
        grid / best / "model" / "model.weights.h5"
    ).read_bytes()
    for rate in ("0.01", "1e-05"):
        losses = [dev[f"rate-{rate}-seed-{seed}"]["loss"] for seed in (0, 1)]
        assert metrics["grid"][rate]["mean"]["loss"] == pytest.approx(np.mean(losses))
        assert metrics["grid"][rate]["deviation"]["loss"] == pytest.approx(np.std(losses, ddof=1))
    assert metrics["dev"]["loss"] == metrics["grid"][f"{metrics['learning_rate']:g}"]["mean"]["loss"]
    assert read_json(grid / best / "settings.json")["learning_rate"] == metrics["learning_rate"]


@pytest.mark.usefixtures("eagerly")
def test_a_model_of_windows_is_no_obstacle(home, tmp_path):
    model = kbert.load_pretrained(home / "init", "classification", num_labels=2, window_pooling="mean")
    pipeline = kbert.build_pipeline(model)
    kbert.save_pretrained(pipeline, tmp_path / "init")
    assert pipeline.settings()["window_pooling"] == "mean"
    more = ("--init", tmp_path / "init", "--steps", 1)
    run_recipe("finetune_glue", *glue_arguments(home, "MRPC", tmp_path / "run", *more))
    assert kbert.load_pretrained(tmp_path / "run").pretrained.settings.window_pooling is None
    kbert.save_pretrained(
        kbert.build_pipeline(kbert.load_pretrained(tmp_path / "init", labels=["0", "1"])), tmp_path / "windows"
    )
    with pytest.raises(SystemExit, match="error: .*expected a model of whole texts. Received: .* --window-pooling"):
        run_recipe(
            "submit_glue",
            *as_flags(data=home / "glue", model=f"SST-2={tmp_path / 'windows'}", output=tmp_path / "sent"),
        )


def test_the_table_of_restarts():
    scores = {
        "constant_answer": {"accuracy": 0.509},
        "train_examples": 67349,
        "dev": {"accuracy": 0.81234},
        "deviation": {"accuracy": 0.0042},
        "restarts": {"0": {}, "1": {}, "2": {}},
    }
    lines = describe_scores(GLUE_TASKS["SST-2"], scores).splitlines()
    assert lines[0].split() == ["SST-2", "accuracy"]
    assert [line.split()[-1] for line in lines[1:5]] == ["93.5", "94.9", "92.7", "88.4"]
    assert lines[-2].split()[-1] == "50.9"
    assert lines[-1].startswith("this run, dev (67,349 examples, 3 seeds)")
    assert lines[-1].endswith("81.2 ± 0.4")
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    "flags, message",
    [
        (("--train-examples", 60), "hold out 1 to 59 of 60 examples. Received: 60"),
        (("--task", "MRPC", "--data", "glue/SST-2"), "MRPC.*Received: 'glue/SST-2'|missing"),
        (("--task", "all", "--data", "init"), "expected folders of GLUE tasks"),
        (("--data", "untested", "--submission"), "SST-2/test.tsv"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(home, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(home)
    shutil.copytree(home / "glue" / "SST-2", home / "untested" / "SST-2", dirs_exist_ok=True)
    (home / "untested" / "SST-2" / "test.tsv").unlink()
    with pytest.raises(SystemExit, match=f"error: .*({message})"):
        run_recipe("finetune_glue", *glue_arguments(home, "SST-2", tmp_path / "run", *flags))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "flags, message",
    [
        (("--task", "XNLI"), "invalid choice: 'XNLI'"),
        (("--data", "nowhere"), "expected a directory"),
        (("--learning-rate", "5e-5,0"), "expected a number above 0"),
        (("--learning-rate", "5e-5,5e-5"), "expected different learning rates"),
    ],
)
def test_unknown_task_and_directory(home, tmp_path, capsys, flags, message):
    with pytest.raises(SystemExit):
        run_recipe("finetune_glue", *glue_arguments(home, "SST-2", tmp_path / "run", *flags))
    assert message in capsys.readouterr().err
