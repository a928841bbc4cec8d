"""The scripts of the tables: each once at toy size, and what a second call repeats."""

import importlib
import types

import choices
import experiment
import pytest
import table5
import table7
from helpers.data_once import data_once
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json
from helpers.toy_study import write_study_home

import kbert

TOY = {"size": "tiny", "steps": 2, "batch_size": 16, "sequence_length": 16, "learning_rate": 1e-3, "packed": False}
TOY |= {"checkpoint_every": 1, "keep_every": 1, "evaluation_batches": 1, "precision": "float32"}
SMALL = {  # constants of the scripts, for fewer runs
    "table5": {"COLUMNS": ("SST-2",)},
    "table6": {"SIZES": ("tiny",), "COLUMNS": ("SST-2",)},
    "table8": {"PAPER": {mixture: {"NER": 95.4} for mixture in ((80, 10, 10), (0, 20, 80))}, "COLUMNS": ("NER",)},
    "table7": {"TAGGERS": {"units": 4, "epochs": 1, "batch_size": 4}},
    "choices": {"TABLES": {"positions": choices.TABLES["positions"], "pretraining": choices.TABLES["pretraining"]}},
}
SCRIPTS = {name: [name] for name in ("table5", "table6", "table7", "table8", "figure5")}
SCRIPTS |= {"choices": ["positions", "pretraining"]}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_study_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """Constants of toy size."""
    for name, value in {"PRETRAINING": TOY, "LEARNING_RATES": (1e-3,), "SEEDS": (0,)}.items():
        monkeypatch.setattr(experiment, name, value)
    monkeypatch.setattr(experiment, "FINETUNING", {"steps": 1, "batch_size": 8, "sequence_length": 16, "dropout": 0})
    for script, constants in SMALL.items():
        for name, value in constants.items():
            monkeypatch.setattr(importlib.import_module(script), name, value)


def run(script, home, output):
    """The results of a script by the names of their files."""
    places = {"records": home / "records", "data": home / "data", "output": output, "results": output / "results"}
    importlib.import_module(script).main(**places)
    return {name: read_json(output / f"results/{name}.json") for name in SCRIPTS[script]}


@pytest.mark.slow  # a minute each; what is called and written: test_what_a_table_compares
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_trains_scores_and_writes(home, script, monkeypatch):
    data_once(monkeypatch.setattr)
    with run_eagerly():
        results = run(script, home, home / "runs")
    for result in results.values():
        assert result["columns"] == list(result["settings"]["examples"])
        for row in result["rows"]:
            assert set(row["scores"]) <= set(result["columns"])
            trained = row["name"] not in ("random weights", experiment.BASELINE)
            assert ("mlm_accuracy" in row["pretrained"]) == trained
            assert all(0 <= abs(score["mean"]) <= 100 for score in row["scores"].values())


@pytest.fixture
def calls(monkeypatch):
    """The calls of `kbert.pretrain` and `kbert.finetune`, which train nothing: a score is its number."""
    made = []

    def pretrain(records, output, **options):
        made.append((output.name, options))
        output.mkdir(parents=True)
        metrics = {
            "steps": options["steps"],
            "minutes": 1.0,
            "mlm_accuracy": 0.5,
            "mlm_cross_entropy": float(len(made)),
        }
        kbert.files.write_json(output / "metrics.json", metrics)
        kbert.files.write_json(output / "settings.json", experiment.flat(options))
        line = '{"step": 1, "val_mlm_accuracy": 0.25, "val_mlm_cross_entropy": 2.0}\n'
        (output / "history.jsonl").write_text(line)

    def finetune(source, task, train, dev, **options):
        if options["learning_rate"] > 1:
            raise FloatingPointError("Expected finite losses")
        made.append((source, options))
        scores = [dict.fromkeys(("accuracy", "f1", "spearman", "matthews"), value) for value in (0.9, len(made) / 100)]
        metrics = {"evaluations": [scores[1], dict.fromkeys(scores[1], 0.0)], "constant_answer": scores[0]}
        return types.SimpleNamespace(metrics=metrics)

    def features_bilstm(train, dev, source, output, rows, **options):
        made.append((source, options | {"rows": rows}))
        output.mkdir(parents=True)
        kbert.files.write_json(output / "scores.json", dict.fromkeys(rows, 10.0 * options["seed"]))

    monkeypatch.setattr(kbert, "pretrain", pretrain)
    monkeypatch.setattr(kbert, "finetune", finetune)
    monkeypatch.setattr(table7, "features_bilstm", features_bilstm)
    monkeypatch.setattr(table5, "bilstm_encoder", lambda run, task, seed, dropout: (run.name, task, seed, dropout))
    return made


def test_what_table_5_compares(home, tmp_path, calls):
    rows = run("table5", home, tmp_path)["table5"]["rows"]
    pretrainings = {name: options for name, options in calls[:3]}
    own = {name: {key: options[key] for key in options.keys() - TOY.keys()} for name, options in pretrainings.items()}
    ltr = {"next_sentence": False, "left_to_right": True}
    assert own == {"bert": {}, "no-nsp": {"next_sentence": False}, "ltr-no-nsp": ltr}
    sources = [source for source, _ in calls[3:]]
    runs = [tmp_path / name for name in pretrainings]
    assert sources == [*runs, ("ltr-no-nsp", "classification", 0, 0), runs[0]]
    assert [options.get("random_weights", False) for _, options in calls[3:]] == [False] * 4 + [True]
    assert "dropout" not in calls[6][1] and calls[3][1]["dropout"] == 0  # a model in memory has its own
    assert [row["name"] for row in rows] == [*table5.PAPER, "random weights", experiment.BASELINE]
    assert [row["scores"]["SST-2"]["mean"] for row in rows] == pytest.approx([4, 5, 6, 7, 8, 90])
    assert rows[3]["paper"]["MRPC"] == 75.7 and rows[3]["pretrained"]["left_to_right"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_nothing_is_made_twice(home, tmp_path, calls, script):
    first = run(script, home, tmp_path)
    number = len(calls)
    assert run(script, home, tmp_path) == first and len(calls) == number
    entries = read_json(tmp_path / "scores.json")["finetunings"]
    kbert.files.write_json(tmp_path / "scores.json", {"finetunings": entries[:-1]})  # as after a kill
    run(script, home, tmp_path)
    assert len(calls) == number + 1


def test_other_settings_are_other_runs(home, tmp_path, calls, monkeypatch):
    run("table5", home, tmp_path)
    number = len(calls)
    monkeypatch.setattr(experiment, "FINETUNING", {"steps": 2})
    run("table5", home, tmp_path)
    assert len(calls) == number + 5
    monkeypatch.setitem(experiment.PRETRAINING, "steps", 3)
    with pytest.raises(FileExistsError, match="bert was made with other steps. Use another --output"):
        run("table5", home, tmp_path)


def test_each_row_has_the_rate_with_the_best_mean(home, tmp_path, calls, monkeypatch):
    monkeypatch.setattr(experiment, "LEARNING_RATES", (1e-4, 1e-3, 2.0))
    monkeypatch.setattr(experiment, "SEEDS", (0, 1))
    row = run("table5", home, tmp_path)["table5"]["rows"][0]
    score = row["scores"]["SST-2"]
    assert score["values"] == pytest.approx([6, 7]) and score["learning_rate"] == 1e-3  # later calls score more
    assert score["mean"] == pytest.approx(6.5) and score["deviation"] == pytest.approx(0.5**0.5)
    assert score["grid"]["2"] == [None, None]  # diverged


def test_table_7_has_taggers_of_each_seed(home, tmp_path, calls, monkeypatch):
    monkeypatch.setattr(experiment, "SEEDS", (0, 1, 2))
    rows = run("table7", home, tmp_path)["table7"]["rows"]
    assert [row["name"] for row in rows] == ["fine-tuned", *table7.ROWS, experiment.BASELINE]
    assert rows[1]["scores"]["NER"] == {"values": [0.0, 10.0, 20.0], "mean": 10.0, "deviation": 10.0}
    assert rows[1]["paper"] == {"NER": 91.0} and rows[0]["paper"] == {"NER": 96.4}
    taggers = [options for _, options in calls if "rows" in options]
    assert [options["seed"] for options in taggers] == [0, 1, 2] and taggers[0]["sentences"] == 3000


def test_figure_5_is_made_of_checkpoints(home, tmp_path, calls):
    rows = run("figure5", home, tmp_path)["figure5"]["rows"]
    assert [(row["series"], row["pretrained"]["steps"]) for row in rows] == [
        ("MLM", 1),
        ("MLM", 2),
        ("LTR", 1),
        ("LTR", 2),
    ]
    assert [row["pretrained"]["mlm_accuracy"] for row in rows] == [0.25, 0.5] * 2
    sources = [source for source, options in calls if "size" not in options]
    assert sources == [f"{tmp_path}/bert@1", tmp_path / "bert", f"{tmp_path}/ltr-no-nsp@1", tmp_path / "ltr-no-nsp"]
    assert "</svg>" in (tmp_path / "results/figure5.svg").read_text()


def test_the_table_as_markdown(home, tmp_path, calls):
    lines = experiment.markdown(run("table5", home, tmp_path)["table5"]).splitlines()
    columns = "masked-LM perplexity | masked-LM accuracy | left-to-right perplexity | left-to-right accuracy"
    assert lines[0] == f"|  | {columns} | SST-2 | SST-2, paper |"
    assert lines[2] == "| BERT | 2.7 | 50.0% |  |  | 4.0 | 92.7 |"
    assert lines[4] == "| LTR & No NSP |  |  | 20.1 | 50.0% | 6.0 | 92.1 |"
    assert lines[-1] == f"| {experiment.BASELINE} |  |  |  |  | 90.0 |  |"
