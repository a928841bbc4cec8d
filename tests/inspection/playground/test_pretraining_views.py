"""Masks and pairs that the page shows are those of the training, predictions and verdicts those of the model."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.served_models import make_pipeline
from helpers.slow_but import slow_but

from kbert.corpus.pool import make_pool
from kbert.preprocessing.preprocessor import TextPreprocessor
from kbert.pretraining.masking import TokenMasking
from kbert.pretraining.pairs import sentence_pairs
from kbert.stateless_random import fold_in
from kbert.text.packing import pack_ranges

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
    fractions = tf.nn.softmax(tf.cast(logits, tf.float64)).numpy()
    vocabulary = make_pipeline("fill_mask")[0].tokenizer.vocabulary
    for row, (position, label) in zip(fractions, labels.items(), strict=True):
        token = answer["tokens"][position]
        best = np.argsort(-row, kind="stable")[:5]
        assert [one["token"] for one in token["predictions"]] == [vocabulary[n] for n in best]
        assert [one["probability"] for one in token["predictions"]] == pytest.approx(row[best], abs=1e-5)
        assert token["label_probability"] == pytest.approx(row[label], abs=1e-5)
    nll = -np.log([row[label] for row, label in zip(fractions, labels.values(), strict=True)])
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


# Next sentence


DOCUMENT = "The film is good. It was never very bad! A\ncapital of France.\n\nParis is the film. The film was good."
OTHER = "London is a capital.\n\n\u200d\n\nThe capital was never good."
FIRST = [
    "The film is good.",
    "It was never very bad!",
    "A capital of France.",
    "Paris is the film.",
    "The film was good.",
]
SENTENCES = [FIRST, ["London is a capital.", "The capital was never good."]]


@pytest.fixture(scope="module")
def tokenizer():
    return make_pipeline("encoder")[0].tokenizer


@pytest.mark.parametrize("most", slow_but(("enough",), ("enough", "eight")))
def test_pairs_are_those_of_training(ask, tokenizer, most):
    ids = tokenizer(tf.constant([sentence for document in SENTENCES for sentence in document]))
    pool = make_pool(ids, tf.constant([5, 2]), tf.constant([0, 1], tf.int64))
    special = {name: getattr(tokenizer, name) for name in ("cls_id", "sep_id", "pad_id")}
    seen = set()
    for seed in range(8):
        question = {"document": DOCUMENT, "other": OTHER, "seed": seed, "max_length": 13, "short_rate": 0.5}
        answer = ask("next_sentence", model="fill_mask", **question)
        table = sentence_pairs(pool, seed, 0, 13 - 3, short_sequence_rate=0.5)
        batch = pack_ranges(pool.token_ids, *(column[:1] for column in table[:4]), sequence_length=13, **special)
        pair, size = answer["pair"], int(tf.reduce_sum(tf.cast(batch["padding_mask"], tf.int32)))
        assert [token["id"] for token in pair["tokens"]] == batch["token_ids"][0, :size].numpy().tolist()
        assert [token["segment"] for token in pair["tokens"]] == batch["segment_ids"][0, :size].numpy().tolist()
        assert pair["label"] == ("NotNext" if table.is_random[0] else "IsNext")
        seen.add((pair["label"], pair["second"]["document"], bool(pair["dropped"]["front"])))
        if most == "enough" and len(seen) >= 3 and {"IsNext", "NotNext"} == {label for label, *_ in seen}:
            break
    assert len(seen) >= 3 and {"IsNext", "NotNext"} == {label for label, *_ in seen}


@pytest.mark.parametrize("seed", slow_but((0, 1, 2), range(6)))
def test_every_token_of_the_sentences_is_there_or_dropped(ask, tokenizer, seed):
    answer = ask("next_sentence", model=None, document=DOCUMENT, other=OTHER, seed=seed, max_length=13)
    assert answer["sentences"] == SENTENCES
    pair = answer["pair"]
    assert pair["first"][0] == 0
    if pair["label"] == "IsNext":
        assert pair["second"]["document"] == 0
        assert pair["second"]["sentences"][0] == pair["first"][-1] + 1
    chosen = (
        SENTENCES[0][: pair["first"][-1] + 1],
        [SENTENCES[pair["second"]["document"]][n] for n in pair["second"]["sentences"]],
    )
    for segment, sentences in enumerate(chosen):
        front, back = (
            [token["id"] for token in pair["dropped"][side] if token["segment"] == segment]
            for side in ("front", "back")
        )
        kept = [t["id"] for t in pair["tokens"] if t["segment"] == segment and t["token"] not in ("[CLS]", "[SEP]")]
        assert front + kept + back == tokenizer(sentences).flat_values.numpy().tolist()
    lost = len(pair["dropped"]["front"]) + len(pair["dropped"]["back"])
    assert any(f"{lost} token" in step for step in answer["steps"]) or lost == 0
    assert answer["verdict"] is None


def test_the_verdict_is_the_models(ask):
    answer = ask("next_sentence", model="fill_mask", document=DOCUMENT, other=OTHER, seed=2)
    model = make_pipeline("fill_mask")[0].model
    ids = tf.constant([[token["id"] for token in answer["pair"]["tokens"]]])
    segments = tf.constant([[token["segment"] for token in answer["pair"]["tokens"]]])
    batch = {"token_ids": ids, "segment_ids": segments, "padding_mask": ids >= 0, "mask_positions": ids[:, :1] * 0}
    expected = tf.nn.softmax(model(batch)["nsp_logits"])[0, 0]
    assert answer["verdict"]["is_next"] == pytest.approx(float(expected), abs=1e-6)


def test_one_sentence_has_no_next_one(ask):
    for seed in range(3):
        answer = ask("next_sentence", model=None, document="The film is good.", other=OTHER, seed=seed)
        assert answer["pair"]["label"] == "NotNext" and answer["pair"]["first"] == [0]
        assert any("There is no rest" in step for step in answer["steps"])


@pytest.mark.parametrize("seed", slow_but((0, 1), range(4)))
def test_the_label_that_is_asked_for_keeps_a(ask, seed):
    """B and the label change, A does not; with one of the two the pair is the one that is drawn."""
    question = {"model": None, "document": DOCUMENT, "other": OTHER, "seed": seed, "max_length": 40}
    drawn, is_next, not_next = (ask("next_sentence", label=label, **question) for label in (None, "IsNext", "NotNext"))
    assert (is_next["pair"]["label"], not_next["pair"]["label"]) == ("IsNext", "NotNext")
    assert drawn["pair"]["first"] == is_next["pair"]["first"] == not_next["pair"]["first"]
    second = is_next["pair"]["second"]
    assert (second["document"], second["sentences"][0]) == (0, is_next["pair"]["first"][-1] + 1)
    assert drawn["pair"] == (is_next if drawn["pair"]["label"] == "IsNext" else not_next)["pair"]
    for label, answer in (("IsNext", is_next), ("NotNext", not_next)):
        assert any(step.startswith(f"You chose {label}: B ") for step in answer["steps"])
    assert any(step.startswith("The coin says") for step in drawn["steps"])


def test_the_label_is_one_of_two(ask):
    answer = ask("next_sentence", 400, model=None, document=DOCUMENT, other=OTHER, label="Next")
    assert answer["error"] == '`label`: expected IsNext or NotNext. Received: "Next"'


def test_the_drawn_length_is_explained(ask):
    for rate, sentence in ((0.0, "with probability 1 it is 37"), (1.0, "with probability 1 a number from 2 to 37")):
        question = {"document": DOCUMENT, "other": OTHER, "short_rate": rate, "max_length": 40}
        answer = ask("next_sentence", model=None, **question)
        assert sentence in answer["steps"][1]


@pytest.mark.parametrize("document", ["", " \n", "\u200d"])
def test_a_document_without_sentences(ask, document):
    assert "at least one sentence" in ask("next_sentence", 400, model=None, document=document, other=OTHER)["error"]
