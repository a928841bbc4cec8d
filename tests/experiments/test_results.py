"""The pages have the tables of results/*.json."""

import pytest
from helpers.docs_scripts import import_docs_script
from helpers.paths import ROOT
from helpers.run_recipe import read_json

make = import_docs_script("make_results")


@pytest.mark.parametrize("page", make.PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_the_tables_of_the_files(page):
    text = page.read_text(encoding="utf-8")
    assert text == make.with_tables(text), "run: docs/maintainers/make_results.py"


def test_every_table_is_on_a_page():
    shown = "".join(page.read_text(encoding="utf-8") for page in make.PAGES)
    tables = [path.name for path in (ROOT / "results").glob("*.json") if "columns" in read_json(path)]
    assert len(tables) == 9 and all(f"<!-- {name} -->" in shown for name in tables)


def test_a_row_and_the_papers_scores():
    text = make.with_tables("# Page\n<!-- table8.json -->\nold\n<!-- end -->\nby hand\n")
    assert "| 0/20/80 | 75.3 | 31.7% | 53.6 ± 0.3 | 94.8 | 63.2 ± 0.9 |\n" in text
    assert text.endswith("<!-- end -->\nby hand\n") and "old" not in text


def test_long_texts_has_the_scores_of_its_file():
    page = (ROOT / "docs/long-texts.md").read_text(encoding="utf-8")
    for row in read_json(ROOT / "results/long-texts.json")["rows"]:
        score = f"{row['accuracy']['mean']:.1f} ± {row['accuracy']['deviation']:.1f}"
        assert f"| {row['name']} | {row['epochs']} | {row['steps']} | {score}" in page
