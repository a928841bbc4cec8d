"""The code of docs/data.md and docs/corpora.md runs from top to bottom and gives what the pages say."""

import re

from helpers.paths import ROOT

from kbert.text.vocabulary import write_vocabulary


def run(page, number):
    """The names that the page's blocks, so many, leave."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == number
    names = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return names


def test_the_pages_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run("docs/data.md", 4)
    assert sorted(names["inputs"]) == ["mask_positions", "padding_mask", "segment_ids", "token_ids"]
    assert names["packed_inputs"].keys() - names["inputs"].keys() == {"part_ids", "position_ids"}
    assert names["packed_labels"]["nsp_logits"].shape == (8, 4)
    write_vocabulary(tmp_path / "vocab.txt", names["tokenizer"].vocabulary)
    names = run("docs/corpora.md", 3)
    assert names["novel"] == [
        "CHAPTER I.",
        "Mr. Smith walked slowly over the old bridge, which was narrow and none too safe, and looked down.",
        '"Why?" he asked.',
        "Nobody answered.",
    ]
    assert names["detect_format"](open("novel.txt")) == "prose"
    assert "random next sentence" in capsys.readouterr().out and (tmp_path / "wiki.tfrecord").is_file()
