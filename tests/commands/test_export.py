"""export.py: a kbert directory in, a SavedModel out; without flags: test_finetune_classifier.py."""

import json

import pytest
import tensorflow as tf
from helpers.run_recipe import run_kbert
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert


def test_a_version_and_its_answers(tmp_path, capsys):
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1)))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["bad", "good"], sequence_length=13)
    kbert.save_pretrained(pipeline, tmp_path / "run/model")
    (tmp_path / "run/metrics.json").write_text('{"accuracy": 0.75}')
    more = ("--version", 7, "--precision", "float32")
    run_kbert("export", "--source", tmp_path / "run", "--output", tmp_path / "saved_models/mine", *more)
    printed = capsys.readouterr().out
    assert f"Wrote {tmp_path}/saved_models/mine/7 (" in printed
    assert "serving_default: text -> label, probabilities" in printed
    assert "classify: inputs -> classes, scores" in printed and "MODEL_NAME=mine" in printed
    card = json.loads((tmp_path / "saved_models/mine/7/card.json").read_text("utf-8"))
    assert card["metrics"] == {"accuracy": 0.75} and card["precision"] == "float32"
    settings = {
        "version": 7,
        "layers": None,
        "sequence_length": None,
        "pair": None,
        "task": None,
        "top_k": None,
        "window_pooling": "stored",
        "null_threshold": "stored",
        "max_request_bytes": 2**20,
        "max_request_tokens": 2**17,
        "precision": "float32",
        "frozen_weights": False,
    }
    manifest = json.loads((tmp_path / "run/model/kbert.json").read_text("utf-8"))
    settings |= {"weights_sha256": manifest["sha256"]["model.safetensors"], "run": {}}  # saved by no recipe
    assert card["made_by"] == {"recipe": "kbert export", "model": "run"} | settings  # no path of this machine
    serve = tf.saved_model.load(str(tmp_path / "saved_models/mine/7")).signatures["serving_default"]
    texts = ["good film", "a bad film"]
    assert serve(text=tf.constant(texts))["label"].numpy().tolist() == [
        label.encode() for label in pipeline.predict(texts, verbose=0)["label"]
    ]


def test_an_encoder_is_exported_and_predicts_for_pairs(tmp_path):
    """A stored model of single texts is told to take pairs; otherwise a file of pairs is refused."""
    kbert.save_pretrained(kbert.BertEncoder(tiny_config()), tmp_path / "model", tokenizer=tiny_tokenizer())
    source = ("--source", tmp_path / "model")
    run_kbert("export", *source, "--output", tmp_path / "out", "--pair", "--sequence-length", 9)
    card = json.loads((tmp_path / "out/1/card.json").read_text("utf-8"))
    assert list(card["signatures"]["serving_default"]["example"]["body"]["inputs"]) == ["text", "text_pair"]
    (tmp_path / "pairs.csv").write_text("text,text_pair\ngood,film\nbad,film\n")
    asked = ("--input", tmp_path / "pairs.csv", "--output", tmp_path / "answers.jsonl", "--sequence-length", 9)
    with pytest.raises(
        SystemExit,
        match=r"pairs.csv: this encoder model takes \['text'\]. Received: also \['text_pair'\]. Name the columns to "
        r"read \(--text; in Python `columns`\), or make it a model for pairs: .*; --pair of the commands",
    ):
        run_kbert("predict", *source, *asked)
    for flags, names in (
        (["--pair"], {"text", "text_pair"}),
        (["--text", "text"], {"text"}),
        (["--keep", "text_pair"], {}),
    ):
        run_kbert("predict", *source, *asked, *flags, "--overwrite")
        row = json.loads((tmp_path / "answers.jsonl").read_text().splitlines()[0])
        assert set(row) - {"embedding"} == (set(names) or {"text", "text_pair"})
    encoder = kbert.build_pipeline(tmp_path / "model", pair=True, sequence_length=9)
    run_kbert("predict", *source, *asked, "--pair", "--overwrite")
    row = json.loads((tmp_path / "answers.jsonl").read_text().splitlines()[1])
    expected = encoder.predict({"text": ["bad"], "text_pair": ["film"]}, verbose=0)["embedding"][0]
    assert row["embedding"] == pytest.approx(expected.tolist(), abs=1e-5)
