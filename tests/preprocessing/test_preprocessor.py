"""What all preprocessors share: in tf.data, on symbols, saved and loaded, without rows; and their errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.slow_but import slow_but
from helpers.tiny_bert import PAIRS, TEXTS, VOCABULARY, tiny_tokenizer
from helpers.wrong_values import wrong_inputs

from kbert.preprocessing import (
    ChoicePreprocessor,
    DocumentPreprocessor,
    FillMaskPreprocessor,
    SpanPreprocessor,
    TaggingPreprocessor,
    TextPreprocessor,
)

CHOICES = [["paris", "never " * 9], ["london", " "], ["", "a"], ["é", "中"]]
KINDS = {
    "text": (TextPreprocessor, {}, {"text": TEXTS}),
    "pair": (TextPreprocessor, {"pair": True}, {"text": TEXTS, "text_pair": PAIRS}),
    "choices": (ChoicePreprocessor, {}, {"prompt": TEXTS, "choices": CHOICES}),
    "documents": (DocumentPreprocessor, {"doc_stride": 4}, {"text": [text * 9 for text in TEXTS]}),
    "spans": (SpanPreprocessor, {"doc_stride": 3, "max_query_length": 4}, {"question": PAIRS, "context": TEXTS}),
    "tags": (TaggingPreprocessor, {"doc_stride": 4}, {"text": TEXTS}),
    "masks": (FillMaskPreprocessor, {"max_masks": 3}, {"text": ["x [MASK] y", "[MASK]", "", "[MASK] " * 30]}),
}


def make(name):
    """(preprocessor, columns as tensors)."""
    kind, options, columns = KINDS[name]
    columns = {name: tf.constant(column) for name, column in columns.items()}
    return kind(tiny_tokenizer(), sequence_length=11, name="preprocessor", **options), columns


@pytest.fixture(params=KINDS)
def made(request):
    return make(request.param)


def assert_same(batch, expected):
    assert batch.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(batch[name], value, err_msg=name)
        assert batch[name].dtype == value.dtype


# "text" and "pair": test_text_preprocessor.py; "tags": traced below, and saved in a pipeline in test_saved_classes.py.
@pytest.mark.parametrize("kind", slow_but(("choices", "documents", "spans", "masks"), KINDS))
def test_in_tf_data_and_saved(kind, tmp_path):
    preprocessor, columns = make(kind)
    expected = preprocessor(columns)
    data = tf.data.Dataset.from_tensor_slices(columns).batch(len(TEXTS)).map(preprocessor)
    assert_same(next(iter(data)), expected)
    symbols = {name: keras.Input(x.shape[1:], dtype="string", name=name) for name, x in columns.items()}
    keras.Model(symbols, preprocessor(symbols)).save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_same(loaded(columns), expected)
    again = loaded.get_layer("preprocessor")
    assert again.settings() == preprocessor.settings() and again.tokenizer.vocabulary == VOCABULARY


def test_outputs_are_those_of_a_call(made):
    preprocessor, columns = made
    symbols = {name: keras.Input(x.shape[1:], dtype="string", name=name) for name, x in columns.items()}
    traced = keras.layers.Layer.compute_output_spec(preprocessor, symbols)
    specs = preprocessor(symbols)
    assert specs.keys() == traced.keys()
    for name, spec in specs.items():
        assert (spec.shape, spec.dtype) == (traced[name].shape, traced[name].dtype), name


def test_no_rows(made):
    preprocessor, columns = made
    batch = preprocessor({name: column[:0] for name, column in columns.items()})
    assert batch["token_ids"].shape[0] == 0 and batch["token_ids"].shape[-1] == 11


def test_what_is_wrong_is_named(made):
    preprocessor, columns = made
    last = list(columns)[-1]
    wrong_inputs(
        preprocessor,
        ({name: column for name, column in columns.items() if name != last}, rf"missing: \['{last}'\]"),
        (columns | {last: tf.constant("one text")}, "a list of one for a single text|several strings per row"),
    )
    with pytest.raises(TypeError, match=f"`{last}` must hold strings. Received: int32"):
        preprocessor(columns | {last: tf.zeros(columns[last].shape, tf.int32)})
    if len(columns) > 1:
        with pytest.raises(ValueError, match="expected a dict"):
            preprocessor(TEXTS)


def test_wrong_settings():
    wrong_inputs(
        lambda row: row[0](tiny_tokenizer(), **row[1]),
        (
            (TextPreprocessor, {"sequence_length": 16.0}),
            "TextPreprocessor: `sequence_length` must be a positive",
        ),
        (
            (TaggingPreprocessor, {"sequence_length": "16"}),
            "TaggingPreprocessor: `sequence_length` must be a",
        ),
        ((TextPreprocessor, {"sequence_length": 4, "pair": True}), "at least 5"),
        ((ChoicePreprocessor, {"sequence_length": 4}), "at least 5 for 2 text"),
        ((SpanPreprocessor, {"sequence_length": 4}), "`sequence_length` must be at least 5"),
        ((SpanPreprocessor, {"doc_stride": 0}), "`doc_stride` must be a positive integer. Received: 0"),
        ((SpanPreprocessor, {"max_query_length": 1.5}), "`max_query_length` must be a positive integer. Received: 1.5"),
        ((TaggingPreprocessor, {"sequence_length": 2}), "at least 3"),
        ((TaggingPreprocessor, {"doc_stride": 2.5}), "`doc_stride` must be a positive integer. Received: 2.5"),
        ((DocumentPreprocessor, {"doc_stride": 0}), "`doc_stride` must be a positive integer. Received: 0"),
        ((FillMaskPreprocessor, {"sequence_length": 2}), "at least 3"),
        ((FillMaskPreprocessor, {"max_masks": 0}), "max_masks.*Received: 0"),
    )
