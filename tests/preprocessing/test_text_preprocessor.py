"""Strings to batches: against a loop over single texts."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.slow_but import slow_but

from kbert import BertTokenizer
from kbert.preprocessing.preprocessor import TextPreprocessor

WORDS = ["alpha", "beta", "gamma", "delta"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s"]
TEXTS = ["alpha betas", "", "GAMMA unknown delta " * 5, "delta"]
PAIRS = ["beta", "gamma gammas " * 9, "", "alpha alpha alpha"]


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(VOCABULARY)


def tokens_of(text):
    result = []
    for word in text.lower().split():
        stem = word[:-1] if word.endswith("s") and word not in WORDS else word
        result += [stem] + ["##s"] * (stem != word) if stem in WORDS else ["[UNK]"]
    return result


def reference(text, pair, length):
    """run_classifier.py, convert_single_example and _truncate_seq_pair."""
    a, b = tokens_of(text), None if pair is None else tokens_of(pair)
    if b is None:
        tokens, types = ["[CLS]", *a[: length - 2], "[SEP]"], None
        types = [0] * len(tokens)
    else:
        while len(a) + len(b) > length - 3:
            (a if len(a) > len(b) else b).pop()
        tokens = ["[CLS]", *a, "[SEP]", *b, "[SEP]"]
        types = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    fill = length - len(tokens)
    return (
        [VOCABULARY.index(token) for token in tokens] + [0] * fill,
        types + [0] * fill,
        [True] * len(tokens) + [False] * fill,
    )


def check(batch, texts, pairs, length):
    rows = [reference(text, pair, length) for text, pair in zip(texts, pairs, strict=True)]
    for i, name in enumerate(["token_ids", "segment_ids", "padding_mask"]):
        np.testing.assert_array_equal(batch[name], [row[i] for row in rows], err_msg=name)
        assert batch[name].shape == (len(texts), length)


@pytest.mark.parametrize("length", [3, 7, 40])
def test_single_texts(tokenizer, length):
    preprocessor = TextPreprocessor(tokenizer, sequence_length=length)
    check(preprocessor({"text": TEXTS}), TEXTS, [None] * 4, length)
    check(preprocessor(TEXTS), TEXTS, [None] * 4, length)
    check(preprocessor(np.array(TEXTS)), TEXTS, [None] * 4, length)
    check(preprocessor(tf.constant(TEXTS)[:, tf.newaxis]), TEXTS, [None] * 4, length)


@pytest.mark.parametrize("length", [5, 8, 12, 40])
def test_pairs(tokenizer, length):
    preprocessor = TextPreprocessor(tokenizer, sequence_length=length, pair=True)
    columns = {"text": TEXTS, "text_pair": np.array(PAIRS, object), "ignored": [1, 2, 3, 4]}
    check(preprocessor(columns), TEXTS, PAIRS, length)


@pytest.mark.parametrize("as_layer", slow_but((True,), (True, False)))
def test_in_tf_data(tokenizer, as_layer):
    preprocessor = TextPreprocessor(tokenizer, sequence_length=9, pair=True)
    apply = preprocessor if as_layer else preprocessor.call
    dataset = tf.data.Dataset.from_tensor_slices({"text": TEXTS, "text_pair": PAIRS}).batch(3).map(apply)
    assert {spec.shape.as_list()[1] for spec in dataset.element_spec.values()} == {9}
    got = list(dataset)
    check(got[0], TEXTS[:3], PAIRS[:3], 9)
    check(got[1], TEXTS[3:], PAIRS[3:], 9)


def test_columns_of_different_lengths_in_a_graph(tokenizer):
    """A graph for any number of rows would broadcast one row to all rows of the other column."""
    preprocessor = TextPreprocessor(tokenizer, sequence_length=9, pair=True)
    any_rows = tf.TensorSpec([None], tf.string)
    graph = tf.function(lambda text, pair: preprocessor({"text": text, "text_pair": pair}), [any_rows, any_rows])
    check(graph(tf.constant(TEXTS), tf.constant(PAIRS)), TEXTS, PAIRS, 9)
    message = "TextPreprocessor: expected the columns text, text_pair in one length. Received: "
    given = []  # one dataset, as tracing it is what takes the time
    signature = {"text": any_rows, "text_pair": any_rows}
    rows = tf.data.Dataset.from_generator(lambda: iter(given), output_signature=signature).map(preprocessor)
    for texts, pairs, received in ((TEXTS, PAIRS[:1], "4, 1"), (TEXTS[:1], PAIRS, "1, 4"), (TEXTS[:0], PAIRS, "0, 4")):
        with pytest.raises(ValueError, match="expected columns of one length. Received: {'text'"):
            preprocessor({"text": texts, "text_pair": pairs})
        with pytest.raises(tf.errors.InvalidArgumentError, match=message + received):
            graph(tf.constant(texts, tf.string), tf.constant(pairs))
        given[:] = [{"text": texts, "text_pair": pairs}]
        with pytest.raises(tf.errors.InvalidArgumentError, match=message + received):
            list(rows)


def test_bytes_that_are_no_utf8(tokenizer):
    batch = TextPreprocessor(tokenizer, sequence_length=6)([b"alpha \xff\xfe beta", b"\x00alpha\xc3"])
    assert batch["token_ids"].numpy().tolist() == [[2, 5, 6, 3, 0, 0], [2, 5, 3, 0, 0, 0]]


def test_a_text_in_a_row_of_its_own(tokenizer):
    with pytest.raises(ValueError, match="Received: shape"):
        TextPreprocessor(tokenizer)([["alpha", "beta"]])
