"""The recipe: a tiny model, its tags, another model, records."""

import json

import pytest
from helpers.run_recipe import as_flags, run_kbert
from helpers.tiny_directory import write_tiny_directory
from helpers.toy_tags import tagged_sentences, write_conll
from helpers.wrong_values import wrong_inputs


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "tiny")
    write_conll(path / "train.conll", tagged_sentences(32))
    write_conll(path / "dev.conll", tagged_sentences(8, start=32))
    return path


@pytest.mark.usefixtures("eagerly")
def test_all_of_it(home, capsys):
    run_kbert(
        "inspect",
        *as_flags(source=home / "tiny", output=home / "out", log_dir=home / "logs"),
        *as_flags(texts=["the [MASK] film .", "a book"], data=home / "train.conll", dev=home / "dev.conll"),
        *as_flags(columns='{"pos": 1, "tags": -1}', compare=home / "tiny", max_words=100),
    )
    said = capsys.readouterr().out
    assert "entity type: " in said and "report.html" in said and f"tensorboard --logdir {home / 'logs'}" in said
    figures = json.loads((home / "out/figures.json").read_text("utf-8"))
    assert figures["texts"][0]["tokens"][2] == "[MASK]" and figures["texts"][1]["texts"] == ["a book"]
    assert set(figures["probes"]) == {"entity type", "position"}  # all words have one part of speech here
    assert 100 <= figures["probes"]["position"]["train_words"] < 110
    assert (home / "logs/inspection/projector_config.pbtxt").is_file()


def test_wrong_flags_are_named(home):
    wrong_inputs(
        lambda flags: run_kbert("inspect", "--source", home / "tiny", *flags),
        ((), "expected `log_dir`, `output` or both"),
        (("--output", "out", "--columns", "pos"), "2"),
        error=SystemExit,
    )
