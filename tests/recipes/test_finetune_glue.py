"""GLUE fine-tuning: restarts, the table, and a run taken up between two restarts."""

import json

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.run_recipe import import_recipe, read_json, run_recipe, run_recipe_alone
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

import kbert
from kbert.tasks import finetuning_data
from kbert.tasks.glue import GLUE_TASKS

QUICK = ("--batch-size", 8, "--sequence-length", 9, "--learning-rate", 1e-2)
RESTARTS = ("--train-examples", 40, "--epochs", 1, "--restarts", 2, "--seed", 3, "--dropout", 0)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """init/ and glue/ with toy files in the official layout."""
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "init")
    for name in GLUE_TASKS:
        (path / "glue" / name).mkdir(parents=True)
    header = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    for split, rows in {"train": sentences(60), "dev": sentences(20, start=60)}.items():
        labelled = [(text, int(label == "good")) for text, label in rows]
        write_table(path / "glue" / "SST-2" / f"{split}.tsv", labelled, header=("sentence", "label"))
        pairs = [(label, n, n + 1, text, "the kind play .") for n, (text, label) in enumerate(labelled)]
        write_table(path / "glue" / "MRPC" / f"{split}.tsv", pairs, header=header)
    dev = path / "glue" / "MRPC" / "dev.tsv"
    dev.write_bytes(b"\xef\xbb\xbf" + dev.read_bytes())  # as in the official file
    return path


def _arguments(home, task, output, *more):
    return ("--task", task, "--data", home / "glue", "--init", home / "init", "--output", output, *QUICK, *more)


def test_one_run_of_a_pair_task(home, tmp_path, capsys):
    run_recipe("finetune_glue", *_arguments(home, "MRPC", tmp_path / "run", "--steps", 3, "--json"))
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
def restarted(home):
    run_recipe("finetune_glue", *_arguments(home, "SST-2", home / "restarted", *RESTARTS))
    return home / "restarted"


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
    assert (metrics["train_examples"], metrics["steps"]) == (40, 5)


def test_the_best_restart_is_kept(restarted):
    best = restarted / f"seed-{read_json(restarted / 'metrics.json')['best_seed']}"
    for name in ("config.json", "model.weights.h5", "manifest.json"):
        assert (restarted / "model" / name).read_bytes() == (best / "model" / name).read_bytes()


def test_broken_off_in_the_second_restart(home, restarted, tmp_path, monkeypatch, capsys):
    whole = finetuning_data.training_dataset
    arguments = _arguments(home, "SST-2", tmp_path / "run", *RESTARTS)
    with monkeypatch.context() as patch:
        patch.setattr(
            finetuning_data, "training_dataset", lambda *a, **k: whole(*a, **k).take(5 if k["seed"] == 3 else 1)
        )
        with pytest.raises(ValueError, match="ended after step 1"):
            run_recipe("finetune_glue", *arguments)
    first = (tmp_path / "run" / "seed-3" / "metrics.json").read_bytes()
    run_recipe("finetune_glue", *arguments)
    assert (tmp_path / "run" / "seed-3" / "metrics.json").read_bytes() == first
    received, expected = (read_json(path / "metrics.json") for path in (tmp_path / "run", restarted))
    del received["minutes"], expected["minutes"]
    assert received == expected


def test_two_replicas_are_one(home, restarted, tmp_path):
    arguments = _arguments(home, "SST-2", tmp_path / "run", *RESTARTS, "--strategy", "mirrored")
    assert "mirrored: 2 replicas" in run_recipe_alone("finetune_glue", *arguments, KBERT_LOGICAL_CPUS="2")
    one, two = (read_json(path / "metrics.json")["restarts"] for path in (restarted, tmp_path / "run"))
    assert one["3"] == pytest.approx(two["3"], abs=1e-4)
    assert one["4"] == pytest.approx(two["4"], abs=1e-4)


def test_the_example_of_the_documentation(home, monkeypatch, capsys):
    write_tiny_directory(home / "runs" / "tiny")
    monkeypatch.chdir(home)
    code = (ROOT / "docs" / "fine-tuning.md").read_text("utf-8").split("```python\n")[1].split("```")[0]
    exec(code.replace("sequence_length=64", "sequence_length=9"), {})
    assert "'accuracy'" in capsys.readouterr().out
    assert (home / "runs" / "sst2-by-hand" / "model.weights.h5").is_file()


def test_the_table_of_restarts(capsys):
    scores = {
        "constant_answer": {"accuracy": 0.509}, "train_examples": 67349, "dev": {"accuracy": 0.81234},
        "deviation": {"accuracy": 0.0042}, "restarts": {"0": {}, "1": {}, "2": {}},
    }  # fmt: skip
    import_recipe("finetune_glue").print_table(GLUE_TASKS["SST-2"], scores)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["SST-2", "accuracy"]
    assert [line.split()[-1] for line in lines[2:6]] == ["93.5", "94.9", "92.7", "88.4"]
    assert lines[-2].split()[-1] == "50.9"
    assert lines[-1].startswith("this run, dev (67,349 examples, 3 seeds)")
    assert lines[-1].endswith("81.2 ± 0.4")
    assert len({len(line) for line in lines[1:]}) == 1


@pytest.mark.parametrize(
    "flags, message",
    [
        (("--train-examples", 60), "draw 1 to 59 of 60 examples. Received: 60"),
        (("--task", "MRPC", "--data", "glue/SST-2"), "MRPC.*Received: 'glue/SST-2'|missing"),
        (("--sequence-length", 17), "position table, 16. Received: 17"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(home, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(home)
    with pytest.raises(SystemExit, match=f"error: .*({message})"):
        run_recipe("finetune_glue", *_arguments(home, "SST-2", tmp_path / "run", *flags))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "flags, message", [(("--task", "XNLI"), "invalid choice: 'XNLI'"), (("--data", "nowhere"), "expected a directory")]
)
def test_unknown_task_and_directory(home, tmp_path, capsys, flags, message):
    with pytest.raises(SystemExit):
        run_recipe("finetune_glue", *_arguments(home, "SST-2", tmp_path / "run", *flags))
    assert message in capsys.readouterr().err


def test_real_files(home, shared_data, tmp_path):
    run_recipe(
        "finetune_glue", "--task", "SST-2", "--data", shared_data / "glue", "--init", home / "init", *QUICK,
        "--output", tmp_path / "run", "--train-examples", 50, "--steps", 2,
    )  # fmt: skip
    metrics = read_json(tmp_path / "run" / "metrics.json")
    assert metrics["dev"]["examples"] == 872
    assert metrics["constant_answer"]["accuracy"] == pytest.approx(428 / 872)  # of these 50 most are negative
