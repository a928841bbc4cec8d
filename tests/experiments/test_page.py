"""docs/experiments.md shows the figures of results/*.json, and every result there is one that the command writes."""

import importlib.util

import pytest
from helpers.paths import ROOT

from kbert.experiments.paper_tables import TABLES, paper_table
from kbert.experiments.report import result_table
from kbert.files import read_json, write_json

RESULTS = [path for path in sorted((ROOT / "results").glob("*.json")) if path.stem in TABLES]  # others have own pages


@pytest.fixture(scope="module")
def make():
    spec = importlib.util.spec_from_file_location("make_experiments", ROOT / "docs" / "make_experiments.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_figures_of_the_files(make):
    page = make.PAGE.read_text(encoding="utf-8")
    assert page == make.with_results(page, make.RESULTS), "run: python docs/make_experiments.py"
    assert page.count("### ") == len(RESULTS)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_files_are_those_of_the_command(path):
    result = read_json(path)
    assert path.stem == result["table"] in TABLES
    assert path.with_suffix(".md").read_text(encoding="utf-8") == result_table(result)
    if path.stem != "table6":  # its sizes are chosen
        assert [row["name"] for row in result["rows"]] == [row.name for row in paper_table(path.stem).rows]


def test_a_page_with_a_result(make, tmp_path):
    score = {"values": [70.0, 72.0], "mean": 71.0, "deviation": 1.414, "learning_rate": 1e-4, "grid": {}}
    pretrained = {"steps": 10, "minutes": 3.4, "mlm_perplexity": 8.8, "mlm_accuracy": 0.5}
    row = {"name": "BERT", "series": None, "pretrained": pretrained, "scores": {"MRPC": score}, "paper": {"MRPC": 86.7}}
    settings = {"source": ["records"], "pretraining": {"steps": 10}, "finetuning": {"epochs": 3.0}, "seeds": [0, 1]}
    settings |= {"feature_training": {"units": 4}, "processor": "a processor", "cores": 2}
    settings |= {"examples": {"MRPC": {"train": 3668, "dev": 408}}, "learning_rates": [1e-4]}
    result = {"table": "table5", "title": "Table 5", "source": "section 5.1", "columns": ["MRPC"], "rows": [row]}
    result |= {"paper_rows": {}, "sentences": ["A sentence."], "settings": settings, "date": "2026-11-22"}
    write_json(tmp_path / "table5.json", result | {"versions": {"keras": "3.15"}})
    page = make.with_results(make.PAGE.read_text(encoding="utf-8"), tmp_path)
    for line in (
        "### Table 5",
        "| BERT | 10 | 8.8 | 50.0 % | 71.0 ± 1.4 |",
        "- A sentence.",
        "MRPC 3,668 and 408",
        "a processor, 2 cores",
    ):
        assert line in page
    assert "2026-11-22; a processor, 2 cores; keras 3.15." in page
    assert make.with_results(page, tmp_path) == page
    assert "No table has been run" in make.with_results(page, tmp_path / "none")
