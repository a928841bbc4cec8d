"""Tables of scores: Markdown, CSV, plot and JSON say the same, and the best learning rate is taken."""

import csv
import os
import types
import xml.etree.ElementTree

import pytest
from experiments.paper_tables import TABLES, paper_table
from experiments.report import result_table
from experiments.run_table import run_table
from experiments.study import Study

from kbert.files import read_json


class Scores(Study):
    """A study whose runs are made up: a row's place decides its scores, and the second learning rate is better."""

    def __init__(self, columns=("MRPC", "NER"), seeds=3):
        tasks = [types.SimpleNamespace(name=name, train=[0] * 5, dev=[0] * 2) for name in columns]
        pretraining = {"steps": 50, "packed": False, "settings": "small-budget"}
        super().__init__("records", "nowhere", tasks, pretraining=pretraining, seeds=range(seeds), rates=[1e-5, 1e-4])
        self.pretrainings.describe = self.describe_pretraining

    def scores(self, row, task, feature_mode=None):
        level = 90.0 - 5 * len(row.pretraining) - 2 * bool(row.finetuning) + 10 * row.fraction
        values = [level + seed for seed in self.seeds]
        return {1e-3: values} if feature_mode else {1e-5: [value - 20 for value in values], 1e-4: values}

    def describe_pretraining(self, row):
        found = {"steps": int(50 * row.fraction), "minutes": 1.0, "mlm_perplexity": 9.87, "mlm_accuracy": 0.123}
        return found | ({"left_to_right": True} if row.pretraining.get("left_to_right") else {})


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_written_four_times(name, tmp_path):
    table = paper_table(name)
    result = run_table(table, Scores(), tmp_path / "results")
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        f"{name}.{suffix}" for suffix in ("csv", "json", "md", "svg")
    ]
    assert read_json(tmp_path / "results" / f"{name}.json") == result
    text = (tmp_path / "results" / f"{name}.md").read_text()
    assert text == result_table(result) and all(row.name in text for row in table.rows)
    lines = list(csv.DictReader((tmp_path / "results" / f"{name}.csv").open()))
    assert [(line["row"], line["column"]) for line in lines] == [
        (row["name"], column) for row in result["rows"] for column in row["scores"]
    ]
    plot = xml.etree.ElementTree.parse(tmp_path / "results" / f"{name}.svg")
    drawn = [element.text for element in plot.iter("{http://www.w3.org/2000/svg}text")]
    assert all({column, f"{column}, mean and standard deviation"} & set(drawn) for column in result["columns"])
    compared = [row for row in table.rows if table.reference_of(row) is not None]
    assert len(result["sentences"]) == len(compared) > 0


def test_scores_beside_the_papers(tmp_path):
    result = run_table(paper_table("table5"), Scores(), tmp_path)
    text = (tmp_path / "table5.md").read_text()
    columns = "masked-LM perplexity | masked-LM accuracy | left-to-right perplexity | left-to-right accuracy"
    assert f"|  | {columns} | MRPC | MRPC, paper | NER |" in text  # the paper's other tasks were not run
    assert "| No NSP | 9.9 | 12.3 % |  |  | 96.0 ± 1.0 | 86.5 | 96.0 ± 1.0 |" in text
    assert "| LTR & No NSP |  |  | 9.9 | 12.3 % |" in text  # not to be compared with those of masked models
    assert "- Every pre-training: steps 50." in text
    by_name = {row["name"]: row for row in result["rows"]}
    assert by_name["No NSP"]["scores"]["MRPC"]["learning_rate"] == 1e-4
    assert by_name["No NSP"]["verdicts"]["MRPC"] == {
        "word": "seen",
        "difference": -5.0,
        "spread": 2.0,
        "paper": pytest.approx(-0.2),
    }
    assert by_name["No NSP"]["verdicts"]["NER"]["word"] == "lower"  # the paper's table has no such column
    assert (
        by_name["+ BiLSTM"]["reference"] == "LTR & No NSP" and by_name["+ BiLSTM"]["verdicts"]["MRPC"]["word"] == "tie"
    )
    settings = result["settings"]
    assert settings["examples"]["NER"] == {"train": 5, "dev": 2}
    decided = {"batch_size": 16, "sequence_length": 128, "packed": False, "settings": "small-budget", "steps": 50}
    assert settings["pretraining"].items() >= decided.items()
    assert settings["feature_training"]["units"] == 768 and "seed" not in settings["feature_training"]
    assert settings["processor"] and settings["cores"] == os.cpu_count()


class Recorded(Scores):
    """Scores of runs of two days, of little more than an epoch."""

    def scores(self, row, task, feature_mode=None):
        day = "2026-11-20" if row.pretraining else "2026-11-22"
        self.records[row.name] = {"recorded": f"{day}T10:00:00+00:00", "versions": {"keras": day[-2:], "jax": "1"}}
        return super().scores(row, task, feature_mode)

    def describe_pretraining(self, row):
        return super().describe_pretraining(row) | {"epochs": 1.5}


def test_a_table_has_the_dates_and_versions_of_its_runs(tmp_path):
    study = Recorded()
    study.records["of another table"] = {"recorded": "2025-01-01T10:00:00+00:00", "versions": {"keras": "1"}}
    result = run_table(paper_table("masking"), study, tmp_path)
    assert result["date"] == "2026-11-20 to 2026-11-22" and result["versions"] == {"keras": "20, 22", "jax": "1"}
    assert run_table(paper_table("pretraining"), study, tmp_path)["date"] == "2026-11-22"


def test_masks_that_never_came_again_are_said(tmp_path):
    result = run_table(paper_table("masking"), Recorded(), tmp_path)
    sentences = dict(zip([row["name"] for row in result["rows"][1:]], result["sentences"], strict=True))
    assert sentences["10 different masks"].endswith(
        "No masks came again in about 1.5 epochs, so dupe_factor=10 changed nothing."
    )
    assert not any("changed nothing" in one for name, one in sentences.items() if name != "10 different masks")


def test_one_seed_gives_no_verdicts(tmp_path):
    result = run_table(paper_table("table8"), Scores(seeds=1), tmp_path)
    assert result["columns"] == ["MRPC", "NER", "NER concat-last-four"]
    assert {one["word"] for row in result["rows"] for one in row.get("verdicts", {}).values()} == {"one seed"}


def test_random_weights_have_no_pretraining(tmp_path):
    result = run_table(paper_table("pretraining"), Scores(), tmp_path)
    assert result["rows"][1]["pretrained"] == {} and result["rows"][0]["pretrained"]["steps"] == 50


def test_random_weights_stand_below_the_tables_of_pretraining_tasks_and_masks(tmp_path):
    for name, reference in (("table5", "BERT"), ("table8", "80/10/10")):
        result = run_table(paper_table(name), Scores(), tmp_path)
        row = next(row for row in result["rows"] if row["name"] == "random weights")
        assert row["pretrained"] == {} and row["reference"] == reference
        assert list(row["scores"]) == ["MRPC", "NER"]  # no features of a frozen encoder without pre-training
        assert row["verdicts"]["NER"]["paper"] == -1


def test_features_need_tagged_words(tmp_path):
    for name in ("table7", "table8"):
        with pytest.raises(ValueError, match=f"{name}: expected tagged words among the tasks. Received: .'MRPC'"):
            run_table(paper_table(name), Scores(columns=("MRPC",)), tmp_path)
    assert list(run_table(paper_table("table7"), Scores(), tmp_path)["columns"]) == ["NER"]
