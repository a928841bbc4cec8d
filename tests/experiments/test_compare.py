"""The scripts that compare models, runs and windows: what they choose, read and write, at toy size."""

import csv
import json
import types

import compare_finetuning
import compare_pretraining
import long_texts
import pytest
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json
from helpers.tiny_directory import BAD, GOOD, write_tiny_directory
from helpers.toy_glue import write_toy_glue

import kbert


@pytest.fixture
def trained(monkeypatch):
    """The calls of `kbert.finetune`, which trains nothing; random weights do best at the lower rate, and 1 diverges."""
    calls = []

    def finetune(source, task, train, dev, **options):
        calls.append(options)
        rate, random_weights = options["learning_rate"], options.get("random_weights", False)
        if rate == 1:
            raise FloatingPointError("Expected finite losses")
        score = (0.6 if random_weights else 0.5) if rate == 1e-4 else (0.4 if random_weights else 0.8)
        evaluations = [{"accuracy": score + options["seed"] / 100}]
        return types.SimpleNamespace(metrics={"evaluations": evaluations, "constant_answer": {"accuracy": 0.5}})

    monkeypatch.setattr(kbert, "finetune", finetune)
    return calls


@pytest.fixture
def glue(tmp_path, monkeypatch):
    write_toy_glue(tmp_path / "data/glue", train=24, dev=8)
    for name, value in {"COLUMNS": ("SST-2",), "EXAMPLES": {"SST-2": 16}, "SEEDS": (0, 1, 2)}.items():
        monkeypatch.setattr(compare_finetuning, name, value)
    monkeypatch.setattr(compare_finetuning, "GRID", {"learning_rate": (1e-4, 1e-3, 1), "epochs": (1,)})
    return tmp_path


def compare(home, *others):
    source = write_tiny_directory(home / "toy/model") if not (home / "toy").exists() else home / "toy/model"
    compare_finetuning.main(source, others, home / "data", home / "runs", home / "results")
    return read_json(home / "results/finetuning-toy.json")


def test_each_model_has_its_own_best_setting(glue, trained):
    result = compare(glue)
    tried = [(options["learning_rate"], options["seed"]) for options in trained]
    first = [(1e-4, 0), (1e-3, 0), (1, 0)]
    assert tried == [*first, (1e-3, 1), (1e-3, 2), *first, (1e-4, 1), (1e-4, 2)]
    assert all(options["keep"] == "last" and options["evaluate_every"] is None for options in trained)
    toy, random, baseline = (row["scores"]["SST-2"] for row in result["rows"])
    assert toy["values"] == pytest.approx([80, 81, 82]) and toy["options"] == {"learning_rate": 1e-3, "epochs": 1}
    assert random["values"] == pytest.approx([60, 61, 62]) and baseline["values"] == [50]
    assert [one["value"] for one in random["grid"]] == [pytest.approx(60), pytest.approx(40), None]
    assert result["settings"]["examples"]["SST-2"] == {"train": 16, "dev": 8}
    assert compare(glue)["rows"] == result["rows"] and len(trained) == 10  # nothing is made twice


def test_further_models_are_rows(glue, trained):
    write_tiny_directory(glue / "other")
    rows = compare(glue, glue / "other")["rows"]
    assert [row["name"] for row in rows] == ["toy", "random weights", "other", "most frequent answer"]


@pytest.mark.slow  # what is tried and kept: above
def test_a_comparison_that_trains(glue):
    with run_eagerly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare_finetuning, "GRID", {"learning_rate": (1e-2,), "sequence_length": (16,)})
        patch.setattr(compare_finetuning, "SEEDS", (0,))
        assert 0 <= compare(glue)["rows"][0]["scores"]["SST-2"]["mean"] <= 100


def test_what_is_told_of_a_pretraining():
    found = compare_finetuning.pretraining_of("saved_models/kbert-tiny")
    assert found["steps"] == 50_000 and found["mlm_accuracy"] == pytest.approx(0.3697, abs=1e-4)
    assert compare_finetuning.name_of("runs/tiny/model") == "tiny" == compare_finetuning.name_of("saved_models/tiny")


def write_history(run, lines):
    run.mkdir()
    (run / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_runs_by_hours_and_tokens(tmp_path, capsys):
    loss = compare_pretraining.LOSS
    speed = {"seconds": 1800, "steps_per_second": 10.0, "real_tokens_per_second": 1000.0}
    training = [{"step": n, "mlm_cross_entropy": 8.5 - n, loss: 8.0 - n, **speed} for n in (1, 2, 3, 4)]
    write_history(tmp_path / "slow", [{"step": 0, loss: 8.0}, *training])
    write_history(tmp_path / "short", [{"step": 1, "seconds": 1800}, {"step": 2, "seconds": 1800, loss: 4.5}])
    with open(tmp_path / "short/history.jsonl", "a") as file:
        file.write('{"step": 3, "sec')  # a line that is being written
    compare_pretraining.main([tmp_path / "slow", tmp_path / "short"], tmp_path / "out")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| hours | slow | short |"
    expected = [
        "8.000 | –",
        "7.000 | –",
        "7.000 | –",
        "6.000 | 4.500",
        "6.000 | –",
        "5.000 | –",
        "5.000 | –",
        "4.000 | –",
    ]
    assert [line.split(" | ", 1)[1][:-2] for line in lines[2:]] == expected
    slow, short = read_json(tmp_path / "out/comparison.json")["runs"]
    assert slow["points"][-1] == {"step": 4, "tokens": 400.0, "hours": 2.0, "mlm_cross_entropy": 4.5, loss: 4.0}
    assert short["points"][1] == {"step": 2, "tokens": 0.0, "hours": 1.0, loss: 4.5}
    assert "</svg>" in (tmp_path / "out/curves.svg").read_text()
    table = compare_pretraining.curves_table({"slow": slow["points"]}, rows=3).splitlines()
    assert table[2:] == [
        "| slow | 0 | 0.0 | 0.00 | 8.000 |  |  |",
        "| slow | 1 | 0.0 | 0.50 | 7.000 |  |  |",
        "| slow | 4 | 0.0 | 2.00 | 4.000 |  |  |",
    ]


def test_runs_of_one_name_are_refused(tmp_path):
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        write_history(tmp_path / place / "run", [{"step": 1}])
    with pytest.raises(ValueError, match="runs with different names"):
        compare_pretraining.main([tmp_path / "a/run", tmp_path / "b/run"], tmp_path / "out")


@pytest.fixture
def novels(tmp_path, monkeypatch):
    """Three novels of two authors, and two of a third; passages of six words."""
    monkeypatch.setattr(long_texts, "WORDS", 6)
    monkeypatch.setattr(long_texts, "PASSAGES", 3)
    (tmp_path / "novels").mkdir()
    for author, words in (("Kind", GOOD), ("Grim", BAD), ("Few", GOOD)):
        for title in ("A", "B", "C")[: 2 if author == "Few" else 3]:
            lines = [f"the {word} film .\n\nthe {word} {title} .\n" for word in words * 3]
            (tmp_path / f"novels/{author}_{title}_1900.txt").write_text("\n".join(lines))
    return str(tmp_path / "novels/*.txt")


def test_passages_of_the_last_novel_are_for_evaluation(novels, tmp_path):
    long_texts.write_passages([novels], tmp_path)
    rows = {part: list(csv.DictReader((tmp_path / f"{part}.csv").open())) for part in ("train", "test")}
    assert {row["novel"] for row in rows["train"]} == {"Grim_A_1900", "Grim_B_1900", "Kind_A_1900", "Kind_B_1900"}
    assert {row["novel"] for row in rows["test"]} == {"Grim_C_1900", "Kind_C_1900"}
    for row in (*rows["train"], *rows["test"]):
        title = row["novel"].split("_")[1]
        words = GOOD if row["author"] == "Kind" else BAD
        assert row["text"] in [f"the {word} film . the {word} {title} ." for word in words]  # whole paragraphs
    assert [len(rows[part]) for part in rows] == [12, 6]


@pytest.mark.slow  # the passages: above; windows: tests/tasks
def test_beginnings_and_windows(novels, tmp_path, monkeypatch):
    monkeypatch.setattr(long_texts, "ROWS", {"beginnings": ({}, 1), "windows": ({"window_pooling": "mean"}, 1)})
    monkeypatch.setattr(long_texts, "SEEDS", (0,))
    monkeypatch.setattr(long_texts, "FINETUNING", {"learning_rate": 1e-2, "batch_size": 12, "sequence_length": 6})
    with run_eagerly():
        long_texts.main([novels], write_tiny_directory(tmp_path / "toy"), tmp_path / "runs", tmp_path / "results")
    result = read_json(tmp_path / "results/long-texts.json")
    assert [row["name"] for row in result["rows"]] == ["beginnings", "windows"]
    assert result["constant"] == 50 and result["settings"]["labels"] == 2
