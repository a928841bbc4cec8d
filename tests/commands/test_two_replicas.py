"""Recipes on two replicas (of the CPU, dropout 0) train as on one device; GLUE's restarts: test_finetune_glue.py."""

import inspect
import json

import numpy as np
import pytest
from helpers.run_python import run_python
from helpers.run_recipe import as_flags, read_json, run_kbert
from helpers.tiny_corpus import VOCABULARY, make_documents, write_lines
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

import kbert
from kbert.finetuning import run_finetuning
from kbert.pretraining.run import run_pretraining
from kbert.training.hardware import choose_hardware

# A process of its own, whose CPU is two devices.
RUN_RECIPE = """
import contextlib, io, json, sys

from kbert.cli import execute
from kbert.commands import COMMANDS
from kbert.training.console import log_to_console

printed = io.StringIO()
with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
    log_to_console()
    execute(COMMANDS[sys.argv[1]], [*sys.argv[2:], "--strategy", "mirrored", "--logical-cpus", "2"], "kbert")
print(json.dumps(printed.getvalue()))
"""


def run_both(path, recipe, *arguments):
    """The outputs of the recipe on one device, and on two replicas, each of which divides its share of a batch."""
    arguments = (*arguments, "--batch-size", 8, "--checkpoint-every", 10, "--dropout", 0)
    run_kbert(recipe, *arguments, "--output", path / "one")
    arguments = (*arguments, "--accumulate", 2)
    printed = run_python(RUN_RECIPE, recipe, *arguments, "--output", path / "two")
    assert "mirrored: 2 replicas" in printed
    return path / "one", path / "two"


def test_the_flags_choose_the_hardware(tmp_path, monkeypatch):
    """What two replicas then compute: tests/training/test_mirrored.py."""
    write_tiny_directory(tmp_path / "init")
    write_table(tmp_path / "train.csv", sentences(8))
    (tmp_path / "corpus.txt").write_text("a b .\n")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    given = []

    def choose(*arguments, **options):
        given.append(inspect.signature(choose_hardware).bind(*arguments, **options).arguments)
        raise ValueError("chosen")

    table = ("classification", "--train", tmp_path / "train.csv")
    text = (tmp_path / "corpus.txt", "--vocabulary", tmp_path / "vocab.txt", "--steps", 1)
    for recipe, module, inputs in (
        ("finetune", run_finetuning, (*table, "--source", tmp_path / "init")),
        ("pretrain", run_pretraining, text),
    ):
        monkeypatch.setattr(module, "choose_hardware", choose)
        with pytest.raises(SystemExit, match="chosen"):
            run_kbert(recipe, *inputs, "--strategy", "mirrored", "--logical-cpus", 2, "--output", tmp_path / recipe)
    assert [(one["strategy"], one["logical_cpus"]) for one in given] == [("mirrored", 2)] * 2


@pytest.mark.slow  # this model on two replicas, without the recipe: tests/training/test_mirrored.py
def test_pretraining(tmp_path):
    write_lines(tmp_path / "corpus.txt", make_documents(150))
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    outputs = run_both(
        tmp_path,
        "pretrain",
        tmp_path / "corpus.txt",
        *as_flags(vocabulary=tmp_path / "vocab.txt", steps=10, sequence_length=24),
        *as_flags(max_predictions=4, learning_rate=5e-4, held_out=0.2, evaluation_batches=2, log_every=5),
    )
    one, two = (read_json(path / "metrics.json") for path in outputs)
    for name in ("loss", "mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"):
        assert two[name] == pytest.approx(one[name], abs=1e-4), name
    one, two = map(kbert.load_pretrained, outputs)
    for a, b in zip(one.weights, two.weights, strict=True):
        np.testing.assert_allclose(b, a, atol=2e-4, err_msg=a.path)


@pytest.mark.slow  # a classifier on two replicas, without the recipe: tests/training/test_mirrored.py
def test_fine_tuning(tmp_path):
    write_tiny_directory(tmp_path / "init")
    write_table(tmp_path / "train.csv", sentences(61))
    write_table(tmp_path / "dev.csv", sentences(21, start=61))
    outputs = run_both(
        tmp_path,
        "finetune",
        "classification",
        *as_flags(train=tmp_path / "train.csv", dev=tmp_path / "dev.csv", text="text", label="label"),
        *as_flags(source=tmp_path / "init", steps=12, sequence_length=9, learning_rate=2e-3, evaluate_every=12),
    )
    one, two = ([json.loads(line) for line in (path / "history.jsonl").open()] for path in outputs)
    assert [r["step"] for r in one] == [r["step"] for r in two] == [10, 12]
    for a, b in zip(one, two, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
        assert a["accuracy"] == pytest.approx(b["accuracy"], abs=1e-6)
    one, two = (read_json(path / "metrics.json")["dev"] for path in outputs)
    assert one == pytest.approx(two, abs=1e-4)
