"""docs/results.md shows the figures of results/*.json, and every result there is one that the command writes."""

import matplotlib
import pytest
from experiments.cells import CONSTANT
from experiments.compare_finetuning import RANDOM
from experiments.paper_tables import TABLES, paper_table
from experiments.plot import result_plot
from experiments.report import result_csv, result_table
from helpers.docs_scripts import import_docs_script
from helpers.paths import ROOT

from kbert.files import read_json

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
    tables = [path for path in RESULTS if path.stem in TABLES]
    assert page.count("\n### ") == len(tables) + 1  # and published models


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_files_are_those_of_the_command(path):
    result = read_json(path)
    assert path.stem == result["table"]
    files = [(".md", result_table), (".csv", result_csv)]
    if matplotlib.__version_info__ >= (3, 11):  # older ones lay out the axes otherwise
        files.append((".svg", result_plot))
    for suffix, text in files:
        assert path.with_suffix(suffix).read_text(encoding="utf-8") == text(result)
    names = [row["name"] for row in result["rows"]]
    if path.stem.startswith(COMPARISON):
        assert names[:2] == [path.stem.removeprefix(COMPARISON), RANDOM]
    elif path.stem != "table6":  # its sizes are chosen
        tables = [paper_table(path.stem, names=file) for file in (None, "names.txt")]
        assert names in ([*(row.name for row in table.rows), CONSTANT] for table in tables)
