"""The id of [PAD] is a field of the architecture, which every format keeps and which is the vocabulary's."""

import json

import numpy as np
import pytest
from helpers.tiny_bert import VOCABULARY, tiny_config
from helpers.wrong_values import wrong_values

import kbert

OTHER = [VOCABULARY[1], VOCABULARY[0], *VOCABULARY[2:]]  # [PAD] is 1
IDS = np.array([[2, 7, 8, 3, 1, 1]])


def make():
    model = kbert.BertClassifier(tiny_config(num_layers=1, pad_token_id=1))
    return model, np.asarray(model({"token_ids": IDS, "padding_mask": IDS != 1})["logits"])


@pytest.mark.parametrize("tokenizer", [kbert.BertTokenizer(OTHER), None])
@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_it_is_stored(format, tokenizer, tmp_path):
    if format == "huggingface" and tokenizer is None:
        pytest.skip("the format needs a tokenizer")
    model, expected = make()
    kbert.save_pretrained(model, tmp_path / "model", format, tokenizer=tokenizer)
    loaded = kbert.load_pretrained(tmp_path / "model")
    assert loaded.config == model.config
    np.testing.assert_allclose(loaded(IDS)["logits"], expected, atol=1e-6)


def test_the_vocabulary_decides(tmp_path):
    """Over a config.json without it, as older ones, and over a wrong one."""
    model, expected = make()
    path = tmp_path / "model" / "config.json"
    kbert.save_pretrained(model, tmp_path / "model", "huggingface", tokenizer=kbert.BertTokenizer(OTHER))
    fields = json.loads(path.read_text())
    for change in ({"pad_token_id": 0}, {"pad_token_id": None}):
        path.write_text(json.dumps(fields | change))
        loaded = kbert.load_pretrained(tmp_path / "model")
        assert loaded.config.pad_token_id == 1
        np.testing.assert_allclose(loaded(IDS)["logits"], expected, atol=1e-6)


def test_without_a_vocabulary_it_can_be_given(tmp_path):
    kbert.save_pretrained(kbert.BertClassifier(tiny_config(num_layers=1)), tmp_path / "model", "google")
    model = kbert.load_pretrained(tmp_path / "model", pad_token_id=1)
    assert model.config.pad_token_id == 1 and kbert.build_pipeline(model, kbert.BertTokenizer(OTHER))


def test_another_vocabulary_is_refused(tmp_path):
    model, tokenizer = kbert.BertClassifier(tiny_config(num_layers=1)), kbert.BertTokenizer(OTHER)
    message = r"\[PAD\] has another id than the model's. Received: 1 and pad_token_id=0. .*BertConfig\(pad_token_id=1\)"
    wrong_values(
        lambda call: call(),
        ({"call": lambda: kbert.build_pipeline(model, tokenizer)}, f"build_pipeline: .*{message}"),
        ({"call": lambda: kbert.save_pretrained(model, tmp_path / "x", tokenizer=tokenizer)}, message),
    )
    kbert.save_pretrained(make()[0], tmp_path / "model", tokenizer=tokenizer)
    with pytest.raises(ValueError, match=r"Received: 1 and pad_token_id=2"):
        kbert.load_pretrained(tmp_path / "model", pad_token_id=2)
