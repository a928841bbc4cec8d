"""The code of docs/data.md runs from top to bottom and gives what the page says."""

import re

from helpers.paths import ROOT


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    names = {}
    for block in blocks:
        exec(compile(block, "docs/data.md", "exec"), names)
    assert names["novel"] == [
        "CHAPTER I.",
        "Mr. Smith walked slowly over the old bridge, which was narrow and none too safe, and looked down.",
        '"Why?" he asked.',
        "Nobody answered.",
    ]
    assert names["detect_format"](open("novel.txt")) == "prose"
    assert sorted(names["inputs"]) == ["mask_positions", "padding_mask", "segment_ids", "token_ids"]
    assert names["packed_inputs"].keys() - names["inputs"].keys() == {"part_ids", "position_ids"}
    assert names["packed_labels"]["nsp_logits"].shape == (8, 4)
    assert "random next sentence" in capsys.readouterr().out
