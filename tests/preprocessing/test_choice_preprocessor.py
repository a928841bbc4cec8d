"""Prompts and choices → batches: every row is the pair that `TextPreprocessor` packs; what is no choice is padding."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import tiny_tokenizer
from helpers.wrong_values import wrong_inputs

from kbert.preprocessing.preprocessor import ChoicePreprocessor, TextPreprocessor

PROMPTS = ["The film is good.", "", "never " * 30]
CHOICES = [["paris", "A very bad film! " * 9], ["london", " ", "é 中"], ["the capital of France", "", "bad"]]
LENGTH = 13


@pytest.fixture(scope="module")
def preprocessor():
    return ChoicePreprocessor(tiny_tokenizer(), LENGTH)


@pytest.fixture(scope="module")
def batch(preprocessor):
    return {name: tensor.numpy() for name, tensor in preprocessor({"prompt": PROMPTS, "choices": CHOICES}).items()}


def test_every_choice_is_packed_with_its_prompt(batch):
    pairs = TextPreprocessor(tiny_tokenizer(), LENGTH, pair=True)
    assert batch["token_ids"].shape == (3, 3, LENGTH)
    for b, choices in enumerate(CHOICES):
        for c, choice in enumerate(choices):
            if not choice.strip():
                continue
            expected = pairs({"text": [PROMPTS[b]], "text_pair": [choice]})
            for name in batch:
                np.testing.assert_array_equal(batch[name][b, c], expected[name][0])


def test_a_string_without_a_token_is_no_choice(batch):
    for b, c in ((0, 2), (1, 1), (2, 1)):  # missing, blank, empty
        assert not batch["padding_mask"][b, c].any()
        assert not batch["token_ids"][b, c].any() and not batch["segment_ids"][b, c].any()  # [PAD] is 0


def test_the_end_of_the_longer_is_cut(preprocessor):
    tokens = preprocessor.tokenizer.vocabulary
    batch = preprocessor({"prompt": PROMPTS[2:], "choices": [["paris", "very " * 30]]})
    words = [[tokens[i] for i in row] for row in batch["token_ids"][0].numpy()]
    assert words[0] == ["[CLS]", *["never"] * 9, "[SEP]", "paris", "[SEP]"]
    assert words[1] == ["[CLS]", *["never"] * 5, "[SEP]", *["very"] * 5, "[SEP]"]


def test_in_tf_data_the_number_of_choices_is_known(preprocessor):
    columns = {"prompt": tf.constant(PROMPTS), "choices": tf.ragged.constant(CHOICES).to_tensor("")}
    data = tf.data.Dataset.from_tensor_slices(columns).batch(2).map(preprocessor)
    assert data.element_spec["token_ids"].shape.as_list() == [None, 3, LENGTH]
    assert preprocessor({"prompt": [], "choices": []})["token_ids"].shape == (0, 0, LENGTH)


def test_what_is_wrong_is_named(preprocessor):
    wrong_inputs(
        preprocessor,
        ({"prompt": ["a"], "choices": ["b"]}, "several strings per row .B, C.. Received: shape"),
        ({"prompt": [["a", "b"]], "choices": [["b"]]}, "must be a column of strings"),
    )
