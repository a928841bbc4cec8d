"""The Python of docs/quickstart.md and docs/training.md runs, with smaller numbers; slow, as it trains."""

import re

import pytest
from helpers.paths import ROOT
from helpers.tiny_corpus import make_documents, write_lines

from kbert.pretraining.dataset import pretraining_dataset

pytestmark = pytest.mark.slow


def run_page(name, smaller, **names):
    [block] = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / name).read_text("utf-8"), re.M | re.S)
    for written, run in smaller.items():
        assert written in block, f"docs/{name} no longer says {written}"
        block = block.replace(written, run)
    exec(compile(block, f"docs/{name}", "exec"), names)
    return names


def test_the_pages_run(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "corpus.txt", make_documents(300))
    smaller = {"5000": "100", "batch_size=64": "batch_size=4", "steps_per_epoch=100, epochs=10": "steps_per_epoch=2"}
    tokenizer = run_page("quickstart.md", smaller)["tokenizer"]
    assert (tmp_path / "saved_models/by-hand/1/saved_model.pb").is_file()

    def make_dataset(start_step):
        return pretraining_dataset(
            "corpus.txt", tokenizer, batch_size=4, sequence_length=16, max_predictions=3, start_step=start_step
        )

    smaller = {"10_000": "4", "warmup_steps=100": "warmup_steps=1", "8000": "100"}
    run_page("training.md", smaller, make_dataset=make_dataset)
    assert "step 4/4" in caplog.text and (tmp_path / "runs/tiny/history.jsonl").is_file()
