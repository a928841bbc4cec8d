"""docs/results.md shows the figures of results/*.json, and every result there is one that the command writes."""

import pytest
from experiments.cells import CONSTANT
from experiments.compare_finetuning import RANDOM
from experiments.paper_tables import TABLES, paper_table
from experiments.plot import result_plot
from experiments.report import result_csv, result_table
from helpers.docs_scripts import import_docs_script
from helpers.paths import ROOT

from kbert.files import read_json, write_json

COMPARISON = "finetuning-"
RESULTS = [  # others have their own pages
    path
    for path in sorted((ROOT / "results").glob("*.json"))
    if path.stem in TABLES or path.stem.startswith(COMPARISON)
]


@pytest.fixture(scope="module")
def make():
    return import_docs_script("make_experiments")


def test_the_page_has_the_figures_of_the_files(make):
    page = make.PAGE.read_text(encoding="utf-8")
    assert page == make.with_results(page, make.RESULTS), "run: python docs/maintainers/make_experiments.py"
    assert page.count("\n### ") == len(RESULTS) + 1  # and published models


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_files_are_those_of_the_command(path):
    result = read_json(path)
    assert path.stem == result["table"]
    for suffix, text in ((".md", result_table), (".csv", result_csv), (".svg", result_plot)):
        assert path.with_suffix(suffix).read_text(encoding="utf-8") == text(result)
    names = [row["name"] for row in result["rows"]]
    if path.stem.startswith(COMPARISON):
        assert names[:2] == [path.stem.removeprefix(COMPARISON), RANDOM]
    elif path.stem != "table6":  # its sizes are chosen
        tables = [paper_table(path.stem, names=file) for file in (None, "names.txt")]
        assert names in ([*(row.name for row in table.rows), CONSTANT] for table in tables)


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
    assert "No results." in make.with_results(page, tmp_path / "none")
    other = result | {"table": "pretraining", "rows": [row, row | {"name": RANDOM, "pretrained": {}}]}
    for seeds, number in (([0, 1], 1), ([0, 1, 2], 0)):  # below the table of the same settings alone
        write_json(tmp_path / "pretraining.json", other | {"settings": settings | {"seeds": seeds}, "versions": {}})
        page = make.with_results(page, tmp_path)
        assert page.count("Random weights, with the same fine-tunings: MRPC 71.0 ± 1.4.") == number


def test_what_a_table_says_of_its_runs(make, tmp_path):
    """Options in words, features where there are any, the size of rows of different sizes only in their names."""
    score = {"values": [70.0], "mean": 70.0, "deviation": None, "learning_rate": 1e-4, "grid": {}}
    row = {"series": None, "scores": {"NER": score}, "paper": {}}
    rows = [row | {"name": name, "pretrained": {"steps": 10, "minutes": n}} for name, n in (("a", 61.4), ("b", 100))]
    settings = {"pretraining": {"size": "tiny", "steps": 12_000, "packed": True}, "feature_training": {"units": 4}}
    settings |= {"finetuning": {"sequence_length": None, "bias_correction": False}, "seeds": [0, 1]}
    settings |= {"learning_rates": [1e-4, 3e-4], "examples": {"NER": {"train": 5, "dev": 2}}}
    settings |= {"processor": "a processor", "cores": 2}
    result = {"title": "A table", "columns": ["NER"], "rows": rows, "paper_rows": {}, "sentences": []}
    result |= {"settings": settings, "date": "2026-11-22", "versions": {"keras": "3.15"}}
    for name in ("table6", "table7"):
        write_json(tmp_path / f"{name}.json", result | {"table": name})
    page = make.with_results(make.PAGE.read_text(encoding="utf-8"), tmp_path)
    runs = "Fine-tunings: seeds 0, 1; learning rates 0.0001, 0.0003; no bias correction."
    assert f"\nPre-trainings: steps 12,000, packed; 61 to 100 minutes each. {runs} Examples" in page
    assert f"\nPre-trainings: size tiny, steps 12,000, packed; 61 to 100 minutes each. {runs} Taggers on" in page
    assert page.count("Taggers on features: units 4.") == 1


def test_a_page_with_a_comparison(make, tmp_path):
    options = {"learning_rate": 3e-4, "epochs": 3}
    score = {"values": [70.0, 72.0], "mean": 71.0, "deviation": 1.414, "options": options}
    rows = [
        {"name": name, "series": None, "pretrained": {}, "scores": {"MRPC": score}, "paper": {}}
        for name in ("kbert-tiny", RANDOM)
    ]
    rows[0]["pretrained"] = {"mlm_accuracy": 0.31, "nsp_accuracy": 0.5, "steps": 10, "minutes": 3.4}
    write_json(tmp_path / "held-out-kbert-tiny.json", {"mlm_accuracy": 0.3296, "nsp_accuracy": 0.8794})
    rows[0]["verdicts"] = {
        name: {"word": word, "difference": 1.26}
        for name, word in (("MRPC", "tie"), ("CoLA", "seen"), ("STS-B", "seen"))
    }
    settings = {"grid": {"learning_rate": [1e-4, 3e-4], "epochs": [3]}, "choose_on": "dev", "seeds": [0, 1]}
    settings |= {"finetuning": {"batch_size": 32}, "examples": {"MRPC": {"train": 3668, "dev": 408}}}
    settings |= {"processor": "a processor", "cores": 2}
    result = {"table": "finetuning-kbert-tiny", "title": "kbert-tiny", "source": "", "columns": ["MRPC"], "rows": rows}
    result |= {"paper_rows": {}, "sentences": ["A sentence."], "settings": settings, "date": "2026-11-22"}
    write_json(tmp_path / "finetuning-kbert-tiny.json", result | {"versions": {"keras": "3.15"}})
    page = make.with_results(make.PAGE.read_text(encoding="utf-8"), tmp_path)
    for line in (
        "### kbert-tiny\n",
        "| kbert-tiny | 33.0 % | 87.9 % | CoLA +1.3, STS-B +1.3 | MRPC +1.3 (tie) | SST-2, NER, SQuAD |",
        "| random weights |  |  |  | 71.0 ± 1.4 |",
        "| kbert-tiny | learning rate 0.0003, epochs 3 |",
        "Chosen on dev with the first seed, for every row and column: learning rate 0.0001, 0.0003; epochs 3. Seeds "
        "[0, 1], batch size 32. Examples to learn from and to evaluate on: MRPC 3,668 and 408. The pre-training took 3 "
        "minutes. 2026-11-22; a processor, 2 cores; keras 3.15.",
    ):
        assert line in page
    assert make.with_results(page, tmp_path) == page
