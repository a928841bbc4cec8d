"""finetune_classifier.py --window-pooling: long texts are learnt, scored and answered by windows."""

import json
import re

import numpy as np
import pytest
from helpers.run_recipe import as_flags, read_json, run_kbert
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

import kbert


def long_texts(count, start=0):
    rows = enumerate(sentences(count, start))
    return [(f"{'the very . ' * (n % 9)} {text} {'a the . ' * (n % 7)}", label) for n, (text, label) in rows]


@pytest.mark.usefixtures("eagerly")
def test_long_texts_by_windows(tmp_path, capsys):
    write_tiny_directory(tmp_path / "init")
    write_table(tmp_path / "train.csv", long_texts(30))
    dev = long_texts(6, 30)
    write_table(tmp_path / "dev.csv", dev)
    columns = ("--text", "text", "--label", "label")
    command = (
        *as_flags(train=tmp_path / "train.csv", dev=tmp_path / "dev.csv"),
        *columns,
        *as_flags(source=tmp_path / "init", sequence_length=12, steps=2, checkpoint_every=2, batch_size=8),
        *as_flags(window_pooling="max", doc_stride=5, output=True),
    )
    run_kbert("finetune", "classification", *command, tmp_path / "run")
    logged = capsys.readouterr().err
    assert int(re.search(r"30 examples in (\d+) windows", logged)[1]) > 60 and "step 2, dev: loss" in logged
    model = kbert.load_pretrained(tmp_path / "run")
    assert (model.pretrained.settings.task.window_pooling, model.pretrained.settings.task.doc_stride) == ("max", 5)
    scores = read_json(tmp_path / "run" / "metrics.json")["dev"]
    labels = kbert.build_pipeline(model).predict([text for text, _ in dev])["label"]
    assert scores["accuracy"] == np.mean([a == b for a, (_, b) in zip(labels, dev, strict=True)])
    run_kbert("evaluate", "classification", tmp_path / "run", "--examples", tmp_path / "dev.csv", *columns, "--json")
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert again.pop("labels") == scores.pop("labels") and again == pytest.approx(scores, abs=1e-5)


def test_pairs_have_no_windows(tmp_path, capsys):
    write_tiny_directory(tmp_path / "init")
    write_table(tmp_path / "train.csv", long_texts(3))
    with pytest.raises(SystemExit, match="2"):
        run_kbert(
            "finetune",
            "classification",
            *as_flags(train=tmp_path / "train.csv", text="text", label="label", text_pair="text"),
            *as_flags(window_pooling="mean", source=tmp_path / "init", output=tmp_path / "run"),
        )
    assert capsys.readouterr().err.startswith("error: Classification: windows are of single texts")
