"""The flags of the hardware reach the verbs; what two replicas compute: tests/training/test_mirrored.py."""

import inspect

import pytest
from helpers.run_recipe import run_kbert
from helpers.tiny_corpus import VOCABULARY
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

import kbert
from kbert.training import hardware
from kbert.training.hardware import choose_hardware


def test_the_flags_choose_the_hardware(tmp_path, monkeypatch):
    write_tiny_directory(tmp_path / "init")
    write_table(tmp_path / "train.csv", sentences(8))
    (tmp_path / "corpus.txt").write_text("a b .\n")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    given, signature = [], inspect.signature(choose_hardware)

    def choose(*arguments, **options):
        given.append(signature.bind(*arguments, **options).arguments)
        raise ValueError("chosen")

    table = ("classification", "--train", tmp_path / "train.csv")
    text = (tmp_path / "corpus.txt", "--vocabulary", tmp_path / "vocab.txt", "--steps", 1)
    for recipe, module, inputs in (
        ("finetune", kbert.training, (*table, "--source", tmp_path / "init")),
        ("pretrain", hardware, text),
    ):
        monkeypatch.setattr(module, "choose_hardware", choose)
        with pytest.raises(SystemExit, match="chosen"):
            run_kbert(recipe, *inputs, "--strategy", "mirrored", "--logical-cpus", 2, "--output", tmp_path / recipe)
    assert [(one["strategy"], one["logical_cpus"]) for one in given] == [("mirrored", 2)] * 2
