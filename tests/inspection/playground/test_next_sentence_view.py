"""The pair that the page shows is the first one of the training's pairs, with all that became of its sentences."""

import pytest
import tensorflow as tf
from helpers.served_models import make_pipeline

from kbert.corpus.pool import make_pool
from kbert.pretraining.pairs import sentence_pairs
from kbert.text.packing import pack_ranges

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


def test_pairs_are_those_of_training(ask, tokenizer):
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
    assert len(seen) >= 3 and {"IsNext", "NotNext"} == {label for label, *_ in seen}


def test_every_token_of_the_sentences_is_there_or_dropped(ask, tokenizer):
    for seed in range(6):
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


def test_the_label_that_is_asked_for_keeps_a(ask):
    """B and the label change, A does not; with one of the two the pair is the one that is drawn."""
    for seed in range(4):
        question = {"model": None, "document": DOCUMENT, "other": OTHER, "seed": seed, "max_length": 40}
        drawn, is_next, not_next = (
            ask("next_sentence", label=label, **question) for label in (None, "IsNext", "NotNext")
        )
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
