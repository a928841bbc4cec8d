"""Two histories beside each other."""

import json
import xml.etree.ElementTree

import pytest
from helpers.run_recipe import read_json, run_recipe

from kbert.files import write_json


def write(path, records):
    path.mkdir()
    (path / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def test_table_and_plot(tmp_path, capsys):
    loss = "val_mlm_cross_entropy"
    write(
        tmp_path / "slow",
        [{"step": 0, loss: 8.0}, *({"step": n, "seconds": 1800, loss: 8.0 - n} for n in (1, 2, 3, 4))],
    )
    write(tmp_path / "a<b", [{"step": 1, "seconds": 1800}, {"step": 2, "seconds": 1800, loss: 4.5}])
    made = {"recorded": "2026-11-20T12:00:00+00:00", "versions": {"kbert": "0.9"}}
    write_json(tmp_path / "slow" / "inputs.json", made)
    run_recipe("compare_pretraining", tmp_path / "slow", tmp_path / "a<b", "--output", tmp_path / "out")
    table = (tmp_path / "out" / "comparison.md").read_text()
    assert table.strip() in capsys.readouterr().out
    assert table.splitlines()[0] == "| hours | slow | a<b |"
    assert table.splitlines()[2:] == [
        "| 0.25 | 8.000 | – |",
        "| 0.50 | 7.000 | – |",
        "| 0.75 | 7.000 | – |",
        "| 1.00 | 6.000 | 4.500 |",
        "| 1.25 | 6.000 | – |",
        "| 1.50 | 5.000 | – |",
        "| 1.75 | 5.000 | – |",
        "| 2.00 | 4.000 | – |",
    ]
    result = read_json(tmp_path / "out" / "comparison.json")
    assert [(run["name"], run["plateau"]) for run in result["runs"]] == [("slow", None), ("a<b", None)]
    assert result["runs"][1]["curve"] == [[1.0, 4.5]]
    assert result["runs"][1]["points"][1] == {"step": 2, "tokens": 0.0, "hours": 1.0, loss: 4.5}
    assert (result["date"], result["versions"]) == ("2026-11-20", {"kbert": "0.9"})
    drawn = xml.etree.ElementTree.parse(tmp_path / "out" / "comparison.svg")
    assert {"slow", "a<b"} <= {part.get("id") for part in drawn.iter()}


def test_a_line_that_is_being_written_is_dropped(tmp_path, capsys):
    write(tmp_path / "run", [{"step": 1, "seconds": 1800, "val_mlm_cross_entropy": 5.0}, {"step": 2, "seconds": None}])
    with open(tmp_path / "run" / "history.jsonl", "a") as file:
        file.write('{"step": 3, "sec')
    run_recipe("compare_pretraining", tmp_path / "run", "--output", tmp_path / "out")
    assert "| 0.50 | 5.000 |" in capsys.readouterr().out


def test_a_run_without_the_score_is_named(tmp_path):
    write(tmp_path / "run", [{"step": 1, "seconds": 1.0}])
    with pytest.raises(SystemExit, match="history.jsonl: expected lines with 'val_mlm_cross_entropy'"):
        run_recipe("compare_pretraining", tmp_path / "run", "--output", tmp_path / "out")
