"""Tags and entities out of logits, in graph, against the same rules in plain Python."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.slow_but import slow_but
from helpers.tiny_bert import tiny_tokenizer

from kbert.answers.words import EntityAnswers, TagAnswers
from kbert.preprocessing.window_preprocessors import TaggingPreprocessor
from kbert.tasks.tagging.tag_scheme import entity_chunks

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
TEXTS = [
    "Peter  Blackburn was in Paris's capital, never in London.",
    "",
    "中国 London é\u0308 \U0001f600 film",
    "the film " * 300,
    "\ufffe\ufdd1 \u200b",
]


@pytest.fixture(scope="module")
def read():
    """A preprocessor of small windows, and its batch."""
    preprocessor = TaggingPreprocessor(tiny_tokenizer(), 13)
    return preprocessor, preprocessor(TEXTS)


def logits_for(batch, ids, num_labels, seed=0):
    """Logits [W, S, N] that make the words' tags `ids` (lists of numbers) at the places that count, noise elsewhere."""
    rng = np.random.default_rng(seed)
    shape = (*batch["token_ids"].shape, num_labels)
    logits = rng.normal(0, 9, shape).astype("float32").reshape(-1, num_labels)
    for row, of_text in enumerate(ids):
        for n, label in enumerate(of_text):
            place = int(batch["word_position"][row, n])
            logits[place] = rng.normal(0, 1, num_labels)
            logits[place, label] = logits[place].max() + 1
    return tf.constant(logits.reshape(shape))


def random_ids(batch, num_labels, seed):
    draw = random.Random(seed)
    return [[draw.randrange(num_labels) for _ in range(n)] for n in batch["word_count"].numpy()]


def test_tags(read):
    _, batch = read
    ids = random_ids(batch, 5, 1)
    logits = logits_for(batch, ids, 5)
    answers = {name: value.numpy() for name, value in TagAnswers(LABELS)({"logits": logits}, batch).items()}
    odds = np.exp(logits.numpy().reshape(-1, 5))
    probabilities = odds / odds.sum(-1, keepdims=True)
    assert answers["count"].tolist() == [len(row) for row in ids]
    for row, of_text in enumerate(ids):
        count = len(of_text)
        assert [tag.decode() for tag in answers["tags"][row, :count]] == [LABELS[i] for i in of_text]
        places = batch["word_position"][row].numpy()[:count]
        np.testing.assert_allclose(answers["scores"][row, :count], probabilities[places].max(-1), rtol=1e-5)
        assert set(answers["tags"][row, count:]) <= {b""} and set(answers["words"][row, count:]) <= {b""}
        assert not answers["scores"][row, count:].any()


def conlleval_tags(labels, ids):
    """In the tags that `entity_chunks` reads: S and U begin, E and L go on (ends are not told to it)."""
    same = str.maketrans("SULE", "BBII")
    return [label if label == "O" else label[0].translate(same) + label[1:] for label in (labels[i] for i in ids)]


@pytest.mark.parametrize("labels", [LABELS, ["B-PER", "O", "S-PER"], ["U-A", "O", "B-A", "I-B"]])
@pytest.mark.parametrize("seed", slow_but((0, 1), range(4)))
def test_entities_are_the_exact_text_at_their_places(read, labels, seed):
    _, batch = read
    ids = random_ids(batch, len(labels), seed)
    logits = logits_for(batch, ids, len(labels), seed)
    answers = {n: v.numpy() for n, v in EntityAnswers(labels)({"logits": logits}, batch).items()}
    scores = TagAnswers(labels)({"logits": logits}, batch)["scores"].numpy()
    for row, text in enumerate(TEXTS):
        expected = entity_chunks(conlleval_tags(labels, ids[row]))
        count = answers["count"][row]
        assert count == len(expected)
        for n, (first, last, type_) in enumerate(expected):
            start, end = int(batch["word_starts"][row, first]), int(batch["word_ends"][row, last - 1])
            assert (answers["starts"][row, n], answers["ends"][row, n]) == (start, end)
            assert answers["entities"][row, n].decode() == text[start:end]
            assert answers["types"][row, n].decode() == type_
            assert answers["scores"][row, n] == pytest.approx(scores[row, first:last].mean(), rel=1e-5)
        assert (answers["starts"][row, count:] == -1).all() and (answers["ends"][row, count:] == -1).all()
        assert set(answers["entities"][row, count:]) <= {b""}


@pytest.mark.parametrize(
    "labels, ids, expected",
    [
        (["O", "B-X", "I-X", "E-X", "S-X"], [1, 3, 1, 3, 4], ["a b", "c d", "e"]),
        (["O", "B-X", "I-X", "E-X"], [2, 3, 2, 0, 3], ["a b", "c", "e"]),  # broken: E- ends, I- begins
        (["O", "B-X", "I-X", "L-X", "U-X"], [4, 4, 1, 2, 3], ["a", "b", "c d e"]),
        (["O", "X", "Y"], [1, 1, 2, 0, 1], ["a b", "c", "e"]),  # types alone
        (["I-X", "O", "B-X"], [0, 0, 2, 1, 0], ["a b", "c", "e"]),  # IOB1, O not first
        (["O", "B-X"], [0, 0, 0, 0, 0], []),
    ],
)
def test_every_scheme(labels, ids, expected):
    batch = TaggingPreprocessor(tiny_tokenizer(), 9)(["a b c d e"])
    answers = EntityAnswers(labels)({"logits": logits_for(batch, [ids], len(labels))}, batch)
    assert [entity.decode() for entity in answers["entities"][0].numpy()] == expected


@pytest.mark.parametrize("layer", [TagAnswers, EntityAnswers])
def test_errors_and_config(layer, read):
    _, batch = read
    with pytest.raises(ValueError, match="`labels` must be a list, each item a string"):
        layer([1, 2])
    logits = tf.zeros((*batch["token_ids"].shape, 3))
    with pytest.raises(ValueError, match=r"as many labels as logits \(3\)"):
        layer(LABELS)({"logits": logits}, batch)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer(LABELS)))
    assert again.labels == tuple(LABELS)
