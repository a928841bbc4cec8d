"""export.py: a kbert directory in, a SavedModel out."""

import pytest
import tensorflow as tf
from helpers.run_recipe import run_recipe
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert


def test_versions_and_answers(tmp_path, capsys):
    model = randomise(kbert.BertClassifier(tiny_config()))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["bad", "good"], sequence_length=13)
    kbert.save_pretrained(pipeline, tmp_path / "run/model")
    for version, more in [("1", ()), ("2", ()), ("7", ("--version", 7))]:
        run_recipe("export", "--model", tmp_path / "run", "--output", tmp_path / "saved_models/mine", *more)
        printed = capsys.readouterr().out
        assert f"Wrote {tmp_path}/saved_models/mine/{version} (" in printed
        assert "serving_default: text -> label, probabilities" in printed
    serve = tf.saved_model.load(tmp_path / "saved_models/mine/7").signatures["serving_default"]
    texts = ["good film", "a bad film"]
    assert serve(text=tf.constant(texts))["label"].numpy().tolist() == [
        label.encode() for label in pipeline.predict(texts, verbose=0)["label"]
    ]


def test_errors_are_one_line(tmp_path):
    model = kbert.BertTagger(tiny_config(), num_labels=3)
    kbert.save_pretrained(model, tmp_path / "model", tokenizer=tiny_tokenizer())
    with pytest.raises(SystemExit, match="error: build_pipeline: expected a model with a task of"):
        run_recipe("export", "--model", tmp_path / "model", "--output", tmp_path / "out")
    assert not (tmp_path / "out").exists()
