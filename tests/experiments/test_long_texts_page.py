"""docs/long-texts.md shows the figures of results/long-texts.json, which make_long_texts.py measures."""

import csv
import importlib.util

import pytest
from helpers.paths import ROOT
from helpers.run_eagerly import run_eagerly
from helpers.tiny_directory import BAD, GOOD, write_tiny_directory

from kbert.files import read_json


@pytest.fixture(scope="module")
def make():
    spec = importlib.util.spec_from_file_location("make_long_texts", ROOT / "docs/maintainers/make_long_texts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def passages(make, tmp_path_factory):
    path = tmp_path_factory.mktemp("novels")
    for author, words in (("Kind", GOOD), ("Grim", BAD), ("Few", GOOD)):
        for title in ("A", "B", "C")[: 2 if author == "Few" else 3]:
            lines = [f"the {word} film .\n\nthe {word} {title} .\n" for word in words * 3]
            (path / f"{author}_{title}_1900.txt").write_text("\n".join(lines))
    make.write_passages([str(path / "*.txt")], path / "out", 6, 3)
    return path / "out"


def test_the_page_has_the_figures_of_the_file(make):
    page = make.PAGE.read_text(encoding="utf-8")
    assert page == make.with_result(page, read_json(make.RESULT)), (
        "run: docs/maintainers/make_long_texts.py --page-only"
    )


def test_the_passages(passages):
    rows = {part: list(csv.DictReader((passages / f"{part}.csv").open())) for part in ("train", "test")}
    assert {row["novel"] for row in rows["train"]} == {"Grim_A_1900", "Grim_B_1900", "Kind_A_1900", "Kind_B_1900"}
    assert {row["novel"] for row in rows["test"]} == {"Grim_C_1900", "Kind_C_1900"}, "novels that were not learned"
    for row in (*rows["train"], *rows["test"]):
        title = row["novel"].split("_")[1]
        words = GOOD if row["author"] == "Kind" else BAD
        assert row["text"] in [f"the {word} film . the {word} {title} ." for word in words], "whole paragraphs"
    assert [len(rows[part]) for part in rows] == [12, 6]


@pytest.mark.slow  # the text of the page: its other tests
def test_what_is_measured(make, passages, tmp_path, monkeypatch):
    names = (make.CUT, "windows, `mean`")
    rows = {name: (make.ROWS[name][0], 1) for name in names}
    model = write_tiny_directory(tmp_path / "toy")
    options = {"learning_rate": 1e-2, "batch_size": 12, "sequence_length": 6}
    with run_eagerly():
        result = make.measure(model, passages, [0], rows, **options)
    assert [row["name"] for row in result["rows"]] == list(names)
    assert [row["steps"] for row in result["rows"]] == [1, 2], "12 passages, of 2 windows each"
    assert result["constant"] == 50 and result["settings"]["labels"] == 2
    monkeypatch.setattr("experiments.cells.finetune", None)  # nothing is trained again
    assert make.measure(model, passages, [0], rows, **options)["rows"] == result["rows"]
    page = make.with_result(make.PAGE.read_text(encoding="utf-8"), result)
    assert f"| windows, `mean` | 1 | 2 | {result['rows'][1]['accuracy']['mean']:.1f} % | one seed |" in page
    assert "toy, 2 authors, 12 passages to learn from and 6 of other novels" in page
    assert make.with_result(page, result) == page
