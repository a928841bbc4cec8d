"""Fine-tuning on one's own table: what it learns, leaves behind, takes up again and refuses."""

import json

import keras
import pytest
from helpers.run_recipe import as_flags, read_json, run_kbert
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

import kbert
from kbert.commands.finetuning import report_finetuned
from kbert.files import sha256
from kbert.finetuning.finetune import FinetunedRun
from kbert.weights.source import open_checkpoint

QUICK = as_flags(batch_size=8, sequence_length=9, learning_rate=2e-3, checkpoint_every=10, evaluate_every=30)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """init/ (a pre-trained model), train.csv and dev.csv."""
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "init")
    write_table(path / "train.csv", sentences(61))
    write_table(path / "dev.csv", sentences(21, start=61))
    return path


def _arguments(home, output, *more):
    return (
        *as_flags(train=home / "train.csv", dev=0.1, text="text", label="label", source=home / "init"),
        *as_flags(output=output),
        *QUICK,
        *more,
    )


@pytest.fixture(scope="module")
def run(home):
    run_kbert(
        "finetune",
        "classification",
        *_arguments(home, home / "run", "--dev", home / "dev.csv", "--dropout", 0, "--steps", 60),
    )
    return home / "run"


def test_it_learns(run):
    metrics = read_json(run / "metrics.json")
    assert metrics["dev"]["accuracy"] == 1.0
    assert metrics["dev"]["loss"] < 0.05
    assert metrics["dev"]["examples"] == 21
    assert metrics["constant_answer"]["accuracy"] == pytest.approx(14 / 21)
    assert (metrics["train_examples"], metrics["steps"]) == (61, 60)


@pytest.mark.usefixtures("eagerly")
def test_what_it_leaves_answers_strings(run):
    model = kbert.load_pretrained(run)
    pipeline = kbert.build_pipeline(model)
    assert pipeline.predict(["the kind film .", "the grim film ."])["label"].tolist() == ["good", "bad"]
    assert model.pretrained.settings.task.labels == ("bad", "good")
    assert model.pretrained.settings.sequence_length == 9
    assert model.config.hidden_dropout == 0.0  # --dropout


def test_each_label_is_scored_and_printed(run, capsys):
    dev = read_json(run / "metrics.json")["dev"]
    report_finetuned(FinetunedRun({"minutes": 1.0, "dev": dev}, [], None, None))
    printed = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    for label, scores in dev["labels"].items():
        assert printed[label] == [f"{x:.4f}" if isinstance(x, float) else str(x) for x in scores.values()]
    many = {"labels": {f"{n:04}{'x' * 50}": {"f1": 0.5} for n in range(1000)}}
    report_finetuned(FinetunedRun({"minutes": 1.0, "dev": many}, [], None, None))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 40 and lines[-2] == "and 970 more" and max(map(len, lines)) < 60


def test_settings_history_logs_but_no_checkpoints(run, home):
    settings = read_json(run / "settings.json")
    assert settings["train"] == str(home / "train.csv")
    assert settings["learning_rate"] == 2e-3
    assert [json.loads(line)["step"] for line in (run / "history.jsonl").open()] == [10, 20, 30, 40, 50, 60]
    left = {"model", "metrics.json", "settings.json", "inputs.json", "history.jsonl", "logs"}
    assert {path.name for path in run.iterdir()} == left
    assert any((run / "logs").rglob("events*"))


def test_the_card_of_an_exported_model_leads_back_to_its_data_and_its_runs(home, run, tmp_path, capsys):
    run_kbert("export", "--source", run, "--output", tmp_path / "saved_models" / "mine")
    assert f"Wrote {tmp_path}/saved_models/mine/1 (" in capsys.readouterr().out
    card = read_json(tmp_path / "saved_models" / "mine" / "1" / "card.json")
    made_by, metrics = card["made_by"]["run"], read_json(run / "metrics.json")
    assert made_by == read_json(run / "model" / "kbert.json")["made_by"]
    assert card["made_by"]["weights_sha256"] == sha256(run / "model" / "model.safetensors")
    assert made_by["recipe"] == "kbert.finetune" and made_by["settings"]["learning_rate"] == 2e-3
    for name in ("train", "dev"):
        file = home / f"{name}.csv"
        expected = {"name": file.name, "files": 1, "bytes": file.stat().st_size, "sha256": sha256(file)}
        assert made_by["inputs"][name] == expected
    assert card["metrics"]["dev"] == made_by["metrics"]["dev"] == metrics["dev"]
    init = made_by["inputs"]["source"]
    assert init["name"] == "init" and init["made_by"] == read_json(home / "init" / "kbert.json")["made_by"]
    assert str(home) not in json.dumps(card)


@pytest.mark.usefixtures("eagerly")
def test_pairs_from_tsv_and_a_held_out_share(home, tmp_path):
    ones, twos = sentences(40), sentences(40, start=1)
    rows = [(f'"{a}', b, int(x == y)) for (a, x), (b, y) in zip(ones, twos, strict=True)]  # a lone " is text
    write_table(tmp_path / "pairs.tsv", rows, header=("one", "two", "same"))
    run_kbert(
        "finetune",
        "classification",
        *as_flags(train=tmp_path / "pairs.tsv", dev=0.1, text="one", text_pair="two", label="same"),
        *as_flags(source=home / "init", output=tmp_path / "run"),
        *QUICK,
        *as_flags(epochs=1, batch_size=18),
        *("--metrics", "f1", "accuracy"),
    )
    metrics = read_json(tmp_path / "run" / "metrics.json")
    assert (metrics["train_examples"], metrics["dev"]["examples"], metrics["steps"]) == (36, 4, 2)
    assert list(metrics["constant_answer"]) == metrics["task"]["metrics"] == ["f1", "accuracy"]
    stored = open_checkpoint(tmp_path / "run" / "model")
    assert stored.settings.task.pair
    assert stored.settings.task.labels == ("0", "1")


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("steps", [2, pytest.param(60, marks=pytest.mark.slow)])  # that it learns: test_it_learns
def test_regression_from_json_lines(home, tmp_path, steps):
    rows = [{"text": text, "stars": 1 if label == "good" else -0.5} for text, label in sentences(61)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_kbert(
        "finetune",
        "regression",
        *as_flags(train=tmp_path / "a.jsonl", dev=0.1, text="text", label="stars"),
        *as_flags(source=home / "init", output=tmp_path / "run"),
        *QUICK,
        *as_flags(steps=steps, dropout=0),
    )
    metrics = read_json(tmp_path / "run" / "metrics.json")
    assert set(metrics["dev"]) == {"examples", "loss", "pearson", "spearman"}
    if steps == 60:
        assert metrics["dev"]["pearson"] > 0.9
        assert metrics["dev"]["loss"] < 0.1  # a constant answer's is 0.5
    assert kbert.load_pretrained(tmp_path / "run").task == "regression"


@pytest.mark.usefixtures("eagerly")
def test_a_dry_run_writes_nothing(home, tmp_path, capsys):
    run_kbert("finetune", "classification", *_arguments(home, tmp_path / "run", "--dry-run"))
    printed = capsys.readouterr().out
    assert "20 steps" in printed and "parameters" in printed and "memory: about" in printed and "time: about" in printed
    assert not (tmp_path / "run").exists()


BAD = [
    (("--label", "stars"), {}, r"train.csv, line 1: expected the columns \['text', 'stars'\]"),
    (("--dev", "dev.csv"), {"dev.csv": "text,label\na,good\nb,dull\n"}, "dev.csv, line 3: .*Received: 'dull'"),
    (("--dev", 0.999), {}, "train.csv: expected to hold out 1 to 60 of 61 examples. Received: a fraction of 0.999"),
    (("--sequence-length", 17), {}, "at most the model's position table, 16. Received: 17"),
    (("--sequence-length", 2), {}, "`sequence_length` must be at least 3"),
]


@pytest.mark.parametrize("flags, files, message", BAD, ids=lambda value: value[0] if isinstance(value, tuple) else None)
def test_what_is_wrong_is_said_before_anything_is_written(home, tmp_path, monkeypatch, flags, files, message):
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(SystemExit, match=f"error: .*{message}"):
        run_kbert("finetune", "classification", *_arguments(home, tmp_path / "run", *flags))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "error, ends", [(ValueError("operands differ"), ValueError), (OSError("operands differ"), SystemExit)]
)
def test_a_bug_within_the_training_has_a_traceback(home, tmp_path, monkeypatch, error, ends):
    """A ValueError before the training is about what the user passed, and ends with one line."""

    def fit(*_, **__):
        raise error

    monkeypatch.setattr(keras.Model, "fit", fit)
    with pytest.raises(ends, match="operands differ"):
        run_kbert("finetune", "classification", *_arguments(home, tmp_path / "run"))
