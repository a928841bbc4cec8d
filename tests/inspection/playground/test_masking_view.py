"""The masks that the page shows are those of the training's own layer, its predictions those of the model."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.served_models import make_pipeline
from helpers.slow_but import slow_but

from kbert.preprocessing.preprocessor import TextPreprocessor
from kbert.pretraining.masking import TokenMasking
from kbert.stateless_random import fold_in

TEXT, PAIR = "The Filmly is good. A é 中!", "paris was never the capital of"


def training(seed, pair=PAIR, **options):
    """Token ids, corrupted ids, and the mask ids at their positions, of `TokenMasking` on a padded batch."""
    pipeline, _ = make_pipeline("fill_mask")
    tokenizer = pipeline.model.pretrained.tokenizer if pipeline.model.pretrained else pipeline.tokenizer
    tokenizer = type(tokenizer)(tokenizer.vocabulary)
    columns = {"text": [TEXT]} | ({"text_pair": [pair]} if pair else {})
    batch = TextPreprocessor(tokenizer, 19, pair=bool(pair))(columns)
    layer = TokenMasking(tokenizer, **{"max_predictions": 19} | options)
    inputs, mask_ids, weights = layer(batch, keys=fold_in(tf.constant([seed], tf.int64), 0))
    count = int(tf.reduce_sum(weights))
    positions = inputs["mask_positions"][0, :count].numpy().tolist()
    return batch, inputs, dict(zip(positions, mask_ids[0, :count].numpy().tolist(), strict=True))


@pytest.mark.parametrize("seed", slow_but((1, 2**62), (0, 1, -5, 2**62)))
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"mask_rate": 0.5, "whole_word": True},
        {"mask_rate": 1.0, "mask_token_rate": 0.2, "random_token_rate": 0.7},
        {"mask_rate": 0.9, "max_predictions": 3},
    ],
)
def test_masks_are_those_of_training(ask, seed, asked):
    options = dict(asked)
    if "mask_token_rate" in asked:
        options["keep_rate"] = 1 - asked["mask_token_rate"] - asked["random_token_rate"]
    batch, inputs, labels = training(seed, **options)
    answer = ask("masking", model="fill_mask", text=TEXT, text_pair=PAIR, seed=seed, **asked)
    vocabulary = make_pipeline("fill_mask")[0].tokenizer.vocabulary
    size = int(tf.reduce_sum(tf.cast(batch["padding_mask"], tf.int32)))
    tokens = answer["tokens"]
    assert [token["id"] for token in tokens] == batch["token_ids"][0, :size].numpy().tolist()
    assert [token["segment"] for token in tokens] == batch["segment_ids"][0, :size].numpy().tolist()
    read = inputs["token_ids"][0, :size].numpy().tolist()
    assert [token["corrupted"] for token in tokens] == [vocabulary[n] for n in read]
    kinds = {}
    for token, now in zip(tokens, read, strict=True):
        if token["position"] in labels:
            assert token["label"] == token["token"] == vocabulary[labels[token["position"]]]
            expected = "kept" if now == token["id"] else "[MASK]" if vocabulary[now] == "[MASK]" else "random"
            kinds[expected] = kinds.get(expected, 0) + 1
        else:
            expected = "not chosen"
            assert token["label"] is token["predictions"] is token["label_probability"] is None
        assert token["kind"] == expected
    assert answer["counts"] == {
        "chosen": len(labels),
        "masked": kinds.get("[MASK]", 0),
        "random": kinds.get("random", 0),
        "kept": kinds.get("kept", 0),
        "candidates": size - 3,
    }
    assert answer["truncated"] == 0 and len(labels) > 0


def test_predictions_and_loss_are_the_models(ask):
    model = make_pipeline("fill_mask")[0].model
    _, inputs, labels = training(3, mask_rate=0.4)
    answer = ask("masking", model="fill_mask", text=TEXT, text_pair=PAIR, seed=3, mask_rate=0.4)
    logits = model({name: inputs[name] for name in model.input})["mlm_logits"][0, : len(labels)]
    shares = tf.nn.softmax(tf.cast(logits, tf.float64)).numpy()
    vocabulary = make_pipeline("fill_mask")[0].tokenizer.vocabulary
    for row, (position, label) in zip(shares, labels.items(), strict=True):
        token = answer["tokens"][position]
        best = np.argsort(-row, kind="stable")[:5]
        assert [one["token"] for one in token["predictions"]] == [vocabulary[n] for n in best]
        assert [one["probability"] for one in token["predictions"]] == pytest.approx(row[best], abs=1e-5)
        assert token["label_probability"] == pytest.approx(row[label], abs=1e-5)
    nll = -np.log([row[label] for row, label in zip(shares, labels.values(), strict=True)])
    assert answer["loss"] == pytest.approx(nll.sum() / (len(nll) + 1e-5), rel=1e-4)


def test_without_a_model_or_head_nothing_is_predicted(ask):
    with_model = ask("masking", model="fill_mask", text=TEXT, seed=4)
    for name in (None, "single"):
        answer = ask("masking", model=name, text=TEXT, text_pair=None, seed=4)
        assert answer["loss"] is None and all(token["predictions"] is None for token in answer["tokens"])
        same = ("token", "corrupted", "kind", "start")
        assert [[t[n] for n in same] for t in answer["tokens"]] == [[t[n] for n in same] for t in with_model["tokens"]]


def test_a_left_to_right_model_is_not_asked_for_masks(ask):
    answer = ask("masking", model="left_to_right", text=TEXT, seed=4)
    assert answer["counts"]["chosen"] and answer["loss"] is None and "left-to-right" in answer["note"]
    assert all(token["predictions"] is token["label_probability"] is None for token in answer["tokens"])
    assert (
        ask("masking", model="fill_mask", text=TEXT)["note"] is ask("masking", model="span", text=TEXT)["note"] is None
    )


def test_offsets_point_into_the_text(ask):
    text = "É \U0001f600 films. 中the"
    tokens = ask("input_representation", model=None, text=text, text_pair=text)["tokens"]
    words = [text[token["start"] : token["end"]] for token in tokens if token["start"] is not None]
    assert words == ["É", "\U0001f600", "film", "s", ".", "中", "the"] * 2
    assert [token["position"] for token in tokens if token["start"] is None] == [0, 8, 16]


def test_what_did_not_fit_is_counted(ask):
    answer = ask("masking", model="fill_mask", text="good " * 30)
    assert len(answer["tokens"]) == 19 and answer["truncated"] == 13
    answer = ask("masking", model="fill_mask", text="good " * 30, text_pair="bad " * 3)
    assert len(answer["tokens"]) == 19 and answer["truncated"] == 17
    assert ask("masking", model="fill_mask", text="good " * 17)["truncated"] == 0


@pytest.mark.parametrize("text", ["", " ", "\n\u200d"])
def test_a_text_without_words(ask, text):
    answer = ask("masking", model="fill_mask", text=text)
    assert [token["token"] for token in answer["tokens"]] == ["[CLS]", "[SEP]"]
    assert answer["counts"]["chosen"] == 0 and answer["loss"] is None
