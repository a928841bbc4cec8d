"""The code of docs/concepts.md runs from top to bottom."""

import re

import pytest
import tensorflow as tf
from helpers.paths import ROOT

SMALLER = {"steps_per_epoch=20": "steps_per_epoch=2", "epochs=2": "epochs=1"}


@pytest.mark.usefixtures("eagerly")
def test_the_page_runs(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/concepts.md").read_text(encoding="utf-8")
    for written, instead in SMALLER.items():
        assert written in page
        page = page.replace(written, instead)
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 10
    names = {}
    for block in blocks:
        exec(compile(block, "docs/concepts.md", "exec"), names)
    assert "classifier_head: newly initialised (2 variables not in pretrained)" in caplog.text
    assert names["documents"][0] == ["the cat sat on the mat", "it was a warm mat", "the cat slept"]
    assert {name: tuple(value.shape) for name, value in names["outputs"].items()} == {
        "mlm_logits": (8, 3, names["tokenizer"].vocabulary_size),
        "nsp_logits": (8, 2),
    }
    assert sorted(names["inputs"]) == ["mask_positions", "padding_mask", "segment_ids", "token_ids"]
    assert names["answers"]["tokens"].shape == (1, 8, 3) and names["answers"]["count"] == [1]
    assert (tmp_path / "saved_models/pets/1/saved_model.pb").is_file()
    assert names["serve"](text=tf.constant(["the dog ran"]))["label"].numpy()[0] in (b"cat", b"dog")
