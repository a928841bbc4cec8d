"""A model against random weights: settings chosen alike, one file a fine-tuning, a verdict by both deviations."""

import json
import shutil

import pytest
from experiments import cells as cells_module
from experiments.cells import Cells, model_name
from experiments.compare_finetuning import _describe_pretraining, compare_finetuning, parse_grid
from experiments.downstream import named_tasks
from experiments.report import describe_options, result_csv, result_table
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json, run_recipe
from helpers.tiny_directory import write_tiny_directory
from helpers.toy_glue import write_toy_glue
from helpers.toy_tags import write_ner
from helpers.wrong_values import wrong_inputs

from kbert.training import dry_run

QUICK = ("--batch-size", 8, "--sequence-length", 12, "--seeds", 0, "--grid", "learning_rate=1e-2,1e-3", "epochs=1")


_TRAINED = pytest.mark.slow  # what is made of the scores: the tests of toys below


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "toy")
    write_toy_glue(path / "glue", train=24, dev=8)
    write_ner(path / "ner")
    return path


def arguments(home, *more):
    places = ("--source", home / "toy", "--output", home / "runs", "--glue", home / "glue", "--ner", home / "ner")
    return (*places, "--tasks", "SST-2:16", "NER", *QUICK, *more)


@pytest.fixture(scope="module")
def made(home):
    """The command, interrupted in its fifth fine-tuning and given again; counts what was run."""
    count, finetune = [0], cells_module.finetune

    def counted(*arguments, **options):
        count[0] += 1
        if count[0] == 5:
            raise KeyboardInterrupt
        return finetune(*arguments, **options)

    with run_eagerly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells_module, "finetune", counted)
        with pytest.raises(KeyboardInterrupt):
            run_recipe("compare_finetuning", *arguments(home))
        first = read_json(home / "runs" / "results" / "finetuning-toy.json")
        run_recipe("compare_finetuning", *arguments(home))
        run_recipe("compare_finetuning", *arguments(home))  # everything is there
    return first, count[0], read_json(home / "runs" / "results" / "finetuning-toy.json")


@_TRAINED
def test_each_finetuning_is_one_file_and_made_once(home, made):
    first, runs, _ = made
    files = sorted((home / "runs" / "cells").iterdir())
    assert len(files) == 8 == runs - 1  # 2 tasks, 2 starts, 2 settings
    assert first["columns"] == ["SST-2"]  # what was done stood there before the interruption
    assert {path.name.rpartition("-")[0] for path in files} == {
        f"{task}-{start}-seed-0" for task in ("SST-2", "NER") for start in ("toy", "random")
    }


@_TRAINED
@pytest.mark.usefixtures("made", "eagerly")
def test_a_dry_run_says_what_is_left(home, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(dry_run, "seconds_per_step", lambda *arguments: 1.0)  # measured in finetuning
    run_recipe("compare_finetuning", *arguments(home, "--dry-run"))
    assert capsys.readouterr().out == "0 fine-tunings are left to do\n"
    run_recipe("compare_finetuning", *arguments(home, "--dry-run", "--seeds", 0, 1, 2))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "8 fine-tunings are left to do"  # 2 more seeds with the settings that were best
    assert lines[1] == "  SST-2: toy 2, random weights 2"
    assert lines[3:5] == ["The first one:", "16 examples in 16 rows"]
    run_recipe(
        "compare_finetuning", *arguments(home, "--dry-run", "--output", tmp_path / "new", "--choose-on", "train")
    )
    assert capsys.readouterr().out.splitlines()[0] == "12 fine-tunings are left to do"
    assert not (tmp_path / "new").exists()


@_TRAINED
def test_the_result(home, made):
    result = made[2]
    rows = {row["name"]: row for row in result["rows"]}
    assert list(rows) == ["toy", "random weights", "most frequent answer"] and result["columns"] == ["SST-2", "NER"]
    assert result["settings"]["grid"] == {"learning_rate": [1e-2, 1e-3], "epochs": [1]}
    assert result["settings"]["examples"]["SST-2"] == {"train": 16, "dev": 8}
    for start in ("toy", "random weights"):
        for score in rows[start]["scores"].values():
            tried = [one["value"] for one in score["grid"]]
            assert score["values"] == [max(tried)] and len(tried) == 2
            assert score["options"] == score["grid"][tried.index(max(tried))]["options"]
    assert rows["toy"]["scores"]["NER"]["metrics"].keys() >= {"f1", "precision", "recall"}
    assert rows["most frequent answer"]["scores"]["NER"]["values"] == [0.0]
    assert rows["toy"]["verdicts"].keys() == {"SST-2", "NER"} and rows["toy"]["reference"] == "random weights"
    assert len(result["sentences"]) == 1 and str(home) not in json.dumps(result)
    text = (home / "runs" / "results" / "finetuning-toy.md").read_text()
    assert text == result_table(result) and "- Chosen for toy: learning rate 0.0" in text
    assert "learning_rate" not in text and result_csv(result).count("\n") == 1 + 3 * 2


@_TRAINED
def test_random_weights_do_not_depend_on_the_weights(home, made, monkeypatch):
    """A later checkpoint of the same run is compared with the random weights that are there."""
    monkeypatch.setattr(cells_module, "finetune", None)
    shutil.copytree(home / "toy", home / "later")
    with open(home / "later" / "model.weights.h5", "ab") as file:
        file.write(b"other")
    cells = Cells(home / "runs" / "cells")
    [task] = named_tasks(["sst-2:16"], glue=home / "glue")
    options = task.options | {"batch_size": 8, "sequence_length": 12, "keep": "last", "evaluate_every": None, "seed": 0}
    options |= {"learning_rate": 1e-2, "epochs": 1}
    assert cells.score(home / "later", task, options | {"random_weights": True})["percent"] >= 0
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):  # it would be made
        cells.score(home / "later", task, options | {"random_weights": False})


class Made:
    """Stands for `finetune`: a score by start, rate and seed; the highest rate diverges."""

    seen = []

    def __init__(self, init, task, train, dev, **options):
        self.seen.append((len(train), len(dev), options))
        rate, random_weights = options["learning_rate"], options["random_weights"]
        if rate > 1e-2:
            raise FloatingPointError("Expected finite losses")
        score = {1e-3: 0.5, 1e-4: 0.6 if random_weights else 0.8}[rate] + options["seed"] / 100
        metrics = {"dev": {"accuracy": score}, "constant_answer": {"accuracy": 0.5}, "steps": 1, "minutes": 0.1}
        self.metrics = metrics | {"train_examples": len(train), "dev_examples": len(dev)}


@pytest.fixture
def toy(home, tmp_path, monkeypatch):
    """`compare_finetuning` with made-up scores."""
    monkeypatch.setattr(cells_module, "finetune", Made)
    monkeypatch.setattr(Made, "seen", [])
    tasks = named_tasks(["SST-2:20:6"], glue=home / "glue")

    def run(grid="learning_rate=1e-3,1e-4,1", **options):
        return compare_finetuning(home / "toy", tasks, tmp_path, grid=parse_grid([grid]), **options)

    return run


def test_the_verdict_and_a_setting_that_diverges(toy):
    result = toy(name="ours")
    tried = [(options["learning_rate"], options["seed"]) for _, _, options in Made.seen]
    assert tried == 2 * [(1e-3, 0), (1e-4, 0), (1, 0), (1e-4, 1), (1e-4, 2)]  # only the best with every seed
    ours, random, _ = result["rows"]
    assert ours["scores"]["SST-2"]["values"] == pytest.approx([80, 81, 82])
    assert [one["value"] for one in random["scores"]["SST-2"]["grid"]] == [pytest.approx(50), pytest.approx(60), None]
    assert result["sentences"] == ["ours against random weights. Same direction as in the paper: SST-2 +20.0 ± 2.0."]
    assert result["table"] == "finetuning-ours"
    with pytest.raises(
        FloatingPointError, match="SST-2, .*expected settings that train. Received: .*'learning_rate': 1"
    ):
        toy("learning_rate=1")


def test_settings_are_chosen_on_training_examples(toy):
    toy(choose_on="train", seeds=[3, 4])
    sizes = [(train, dev) for train, dev, options in Made.seen if not options["random_weights"]]
    assert sizes == [(16, 4)] * 3 + [(20, 6)] * 2  # a fifth held out to choose; then all, scored on dev
    assert {options["seed"] for train, _, options in Made.seen if train == 16} == {3}


def test_models_beside(home, toy):
    write_tiny_directory(home / "other")
    result = toy(other_models=[home / "other"])
    assert [row["name"] for row in result["rows"]] == ["toy", "random weights", "other", "most frequent answer"]
    with pytest.raises(ValueError, match="models of different names. Received: .'toy', '.*toy'"):
        toy(other_models=[home / "toy"])


def test_what_cannot_work_is_said_before_anything_runs(home, toy, tmp_path):
    wrong_inputs(
        lambda options: toy(**options),
        ({"choose_on": "test"}, '`choose_on` must be "dev" or "train". Received: \'test\''),
        ({"seeds": []}, "at least one setting, seed and task. Received: 3, 0 and 1"),
        ({"finetuning": {"epochs": 0}}, "`epochs` must be a number in"),
        ({"finetuning": {"random_weights": True}}, "expected other options. Received: .*'random_weights': True"),
        ({"grid": "seed=1,2"}, r"\['random_weights', 'seed'\] are set for each fine-tuning"),
    )
    wrong_inputs(
        parse_grid,
        (["learning_rate"], "expected NAME=VALUE"),
        (["rate=1"], "each option of kbert.finetune once"),
        (["epochs=1", "epochs=2"], "each option of kbert.finetune once"),
        (["epochs=a"], "epochs: expected numbers, true, false or null. Received: 'a'"),
        (["epochs=0"], "`epochs` must be a number in"),
    )
    wrong_inputs(
        named_tasks,
        (["SST"], "with a name of .*'SST-2'.* Received: 'SST'"),
        (["NER:1:2:3"], "Received: 'NER:1:2:3'"),
        (["NER:many"], "Received: 'NER:many'"),
        (["NER:0"], "Received: 'NER:0'"),
        (["NER", "NER:5"], "each task once"),
        (["NER"], "NER: expected --ner"),
        (["MRPC"], "MRPC: expected --glue"),
    )
    with pytest.raises(SystemExit, match="error: expected NAME=VALUE"):
        run_recipe("compare_finetuning", *arguments(home)[:-2], "rate")
    assert not list(tmp_path.iterdir())


def test_words(tmp_path):
    assert parse_grid(["learning_rate=1e-4,3e-4", "group_by_length=true"]) == [
        {"learning_rate": 1e-4, "group_by_length": True},
        {"learning_rate": 3e-4, "group_by_length": True},
    ]
    options = {"learning_rate": 3e-4, "epochs": 3, "dropout": 0.0, "group_by_length": True, "bilstm": False}
    assert describe_options(options) == "learning rate 0.0003, epochs 3, dropout 0, group by length, no bilstm"
    assert model_name("runs/tiny/model") == "tiny" == model_name("saved_models/tiny")
    (checkpoint := tmp_path / "tiny" / "checkpoints" / "step-0000000200").mkdir(parents=True)
    assert model_name(checkpoint) == "tiny@200"


def test_steps_and_minutes_are_those_of_all_runs_of_a_pretraining(tmp_path):
    one = {"recipe": "pretrain.py", "metrics": {"steps": 40, "minutes": 2.0, "mlm_accuracy": 0.3}}
    two = one | {"metrics": {"steps": 10, "minutes": 0.5, "mlm_accuracy": 0.4}, "inputs": {"init": {"made_by": one}}}
    write_tiny_directory(tmp_path / "toy")
    assert _describe_pretraining(tmp_path / "toy") == {}
    manifest = tmp_path / "toy" / "manifest.json"
    manifest.write_text(json.dumps(read_json(manifest) | {"made_by": two}))
    assert _describe_pretraining(tmp_path / "toy") == {"steps": 50, "minutes": 2.5, "mlm_accuracy": 0.4}
