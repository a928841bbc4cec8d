"""Every kbert call that docs/migrate.md shows runs, in the page's order."""

import contextlib
import io
import re
import shutil

import pytest
from helpers.google_checkpoints import ORIGINAL
from helpers.paths import ROOT
from helpers.stored_models import make_model, save

import kbert

PAGE = ROOT / "docs/migrate.md"
DIRECTORIES = {  # what the page loads, small
    "bert-base-uncased": ("pretraining", "huggingface"),
    "my-classifier": ("classification", "huggingface"),
    "uncased_L-12_H-768_A-12": ("pretraining", "google"),
    "bert_base_en_uncased": ("masked_lm as KerasHub's", "kerashub"),
}


def snippets(page):
    """The blocks of Python, and of the tables the code in a row's last cell, in order."""
    block = None
    for line in page.splitlines():
        if line.startswith("```"):
            if block:
                yield "\n".join(block)
            block = [] if line == "```python" else None
        elif block is not None:
            block.append(line)
        elif line.startswith("| "):
            yield from (code for code in re.findall(r"`([^`]+)`", line.split("|")[-2]) if _is_call(code))


def _is_call(code):
    return re.match(r"(\w+ = )?(kbert|keras|model|layers|classifier|pipeline)[.(]", code) is not None


@pytest.mark.usefixtures("eagerly")
def test_every_call_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (model, format) in DIRECTORIES.items():
        save(make_model(model, max_sequence_length=128, num_layers=1), name, format)
        (tmp_path / name / "kbert_settings.json").unlink()  # as others' programs write them
    (tmp_path / "pretraining_output").mkdir()
    for file in ORIGINAL.iterdir():
        shutil.copy(file, tmp_path / "pretraining_output" / file.name.replace("bert_model.ckpt", "model.ckpt-20000"))
    codes, names = list(snippets(PAGE.read_text("utf-8"))), {}
    assert len(codes) > 50
    with contextlib.redirect_stdout(io.StringIO()):
        for code in codes:
            exec(compile(code, f"docs/migrate.md: {code}", "exec"), names)
    assert names["step"] == 3 and names["masked_lm"].task == "masked_lm"
    assert (tmp_path / "saved_models/strings/1/saved_model.pb").is_file()
    for name, task in (("out", "classification"), ("as-google", "pretraining"), ("preset", "masked_lm")):
        with contextlib.redirect_stdout(io.StringIO()):
            assert kbert.load_pretrained(tmp_path / name).task == task
