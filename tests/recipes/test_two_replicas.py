"""Recipes on two replicas (of the CPU, dropout 0) train as on one device; GLUE's restarts: test_finetune_glue.py."""

import json

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.run_python import run_python
from helpers.run_recipe import read_json, run_recipe
from helpers.tiny_corpus import VOCABULARY, make_documents, write_lines
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

import kbert

# A process of its own, whose CPU is two devices: one for both recipes, as most of its time goes into its start.
RUN_RECIPES = """
import contextlib, importlib, io, json, sys

printed = io.StringIO()
sys.path.insert(0, sys.argv[1])
with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
    for recipe, arguments in json.loads(sys.argv[2]):
        importlib.import_module(recipe).main([*arguments, "--strategy", "mirrored", "--logical-cpus", "2"])
print(json.dumps(printed.getvalue()))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The directory with one-RECIPE and two-RECIPE for each recipe, and what the processes of two replicas printed."""
    path = tmp_path_factory.mktemp("runs")
    write_tiny_directory(path / "init")
    write_table(path / "train.csv", sentences(61))
    write_table(path / "dev.csv", sentences(21, start=61))
    write_lines(path / "corpus.txt", make_documents(150))
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    commands = {
        "pretrain": (
            "--corpus", path / "corpus.txt", "--vocab", path / "vocab.txt", "--steps", 10, "--sequence-length", 24,
            "--max-predictions", 4, "--learning-rate", 5e-4, "--held-out", 0.2, "--evaluation-batches", 2,
            "--log-every", 5,
        ),
        "finetune_classifier": (
            "--train", path / "train.csv", "--dev", path / "dev.csv", "--text-column", "text", "--label-column",
            "label", "--init", path / "init", "--steps", 12, "--sequence-length", 9, "--learning-rate", 2e-3,
            "--evaluate-every", 12,
        ),
    }  # fmt: skip
    every = ("--batch-size", 8, "--checkpoint-every", 10, "--dropout", 0)
    mirrored = []
    for recipe, arguments in commands.items():
        run_recipe(recipe, *arguments, *every, "--output", path / f"one-{recipe}")
        mirrored.append((recipe, [str(a) for a in (*arguments, *every, "--output", path / f"two-{recipe}")]))
    printed = run_python(RUN_RECIPES, ROOT / "recipes", json.dumps(mirrored))
    assert printed.count("mirrored: 2 replicas") == len(commands), printed
    return path


def test_pretraining(runs):
    one, two = (read_json(runs / f"{n}-pretrain" / "metrics.json") for n in ("one", "two"))
    for name in ("loss", "mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"):
        assert two[name] == pytest.approx(one[name], abs=1e-4), name
    one, two = (kbert.load_pretrained(runs / f"{n}-pretrain") for n in ("one", "two"))
    for a, b in zip(one.weights, two.weights, strict=True):
        np.testing.assert_allclose(b, a, atol=2e-4, err_msg=a.path)


def test_fine_tuning(runs):
    directories = [runs / f"{n}-finetune_classifier" for n in ("one", "two")]
    one, two = ([json.loads(line) for line in (path / "history.jsonl").open()] for path in directories)
    assert [r["step"] for r in one] == [r["step"] for r in two] == [10, 12]
    for a, b in zip(one, two, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
        assert a["accuracy"] == pytest.approx(b["accuracy"], abs=1e-6)
    one, two = (read_json(path / "metrics.json")["dev"] for path in directories)
    assert one == pytest.approx(two, abs=1e-4)
