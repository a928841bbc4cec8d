"""What pipelines take: rows as dicts, and texts that are missing."""

import numpy as np
import pytest
from helpers.compare import assert_same_answers
from helpers.na_type import NAType
from helpers.tiny_bert import PAIRS, TEXTS, randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.keras_compat import set_untracked
from kbert.pipelines.text_columns import TextColumns

pytestmark = pytest.mark.usefixtures("eagerly")


def classifier(**options):
    return kbert.build_pipeline(randomise(kbert.BertClassifier(tiny_config(num_layers=1))), tiny_tokenizer(), **options)


def as_rows(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("kind", ["single", "pair", "choices"])
def test_rows_are_answered_as_columns(kind):
    columns = {"text": TEXTS, "text_pair": PAIRS} if kind == "pair" else {"text": TEXTS}
    pipeline = classifier(pair=kind == "pair")
    if kind == "choices":
        columns = {"prompt": ["a", "b"], "choices": [["x", "y"], ["x", "y", "z"]]}
        pipeline = kbert.build_pipeline(randomise(kbert.BertMultipleChoice(tiny_config())), tiny_tokenizer())
    expected = pipeline.predict(columns, verbose=0)
    rows = as_rows(columns | {"id": range(len(columns[next(iter(columns))]))})
    assert_same_answers(pipeline.predict(rows, verbose=0), expected)
    assert_same_answers(pipeline.predict_on_batch(tuple(rows)), expected)
    del rows[1][next(iter(columns))]
    with pytest.raises(ValueError, match="Pipeline: row 1: expected .* missing: "):
        pipeline.predict(rows)


def test_rows_with_inputs_of_another_model_are_refused():
    with pytest.raises(ValueError, match="text_pair"):
        classifier().predict([{"text": text, "text_pair": "x"} for text in TEXTS], verbose=0)


def test_rows_have_the_columns_of_the_training():
    pipeline = classifier()
    set_untracked(pipeline, "trained_columns", {"text": TextColumns(("review",))})
    expected = pipeline.predict(TEXTS, verbose=0)
    for name in ("text", "review"):
        assert_same_answers(pipeline.predict([{name: text, "stars": 3} for text in TEXTS], verbose=0), expected)


def test_rows_are_trained_and_scored():
    pipeline = classifier()
    rows, labels = [{"text": text} for text in TEXTS], [0] * len(TEXTS)
    pipeline.compile()
    assert pipeline.evaluate(rows, labels, verbose=0) == pipeline.evaluate(TEXTS, labels, verbose=0)
    pipeline.fit(rows, labels, verbose=0, validation_split=0.5)


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, np.float32("nan"), NAType(), ""])
@pytest.mark.parametrize("kind", [list, tuple, lambda values: np.array(values, object)])
def test_missing_texts_are_empty(missing, kind, caplog):
    pipeline = classifier()
    expected = pipeline.predict(["good", "", ""], verbose=0)
    caplog.clear()
    for texts in (["good", missing, missing], [missing, "good", missing]):
        found = pipeline.predict({"text": kind(texts)}, verbose=0)
        order = np.argsort([text is missing for text in texts], kind="stable")
        assert_same_answers({name: values[order] for name, values in found.items()}, expected)
    messages = [record.getMessage() for record in caplog.records]
    first = "2 of 3 texts in 'text' are empty, None, NaN or null (first: row 1)"
    assert len(messages) == 2 and first in messages[0] and "row 0" in messages[1]
    assert pipeline.predict(kind([missing, missing]), verbose=0)["label"].shape == (2,)
    assert_same_answers(pipeline.predict_on_batch(kind(["good", missing, missing])), expected)


@pytest.mark.parity
def test_missing_values_of_pandas():
    pandas = pytest.importorskip("pandas")
    pipeline = classifier(pair=True)
    expected = pipeline.predict({"text": ["good", ""], "text_pair": ["", ""]}, verbose=0)
    for missing in (None, float("nan"), pandas.NA, pandas.NaT):
        for dtype in (object, "string"):
            frame = pandas.DataFrame({"text": ["good", missing], "text_pair": [missing, missing]}, dtype=dtype)
            assert_same_answers(pipeline.predict(frame, verbose=0), expected)
            assert_same_answers(pipeline.predict(frame.to_dict("records"), verbose=0), expected)
    assert_same_answers(pipeline.predict(frame.astype({"text_pair": float}), verbose=0), expected)


def test_missing_choices_are_no_choices():
    pipeline = kbert.build_pipeline(randomise(kbert.BertMultipleChoice(tiny_config())), tiny_tokenizer())
    expected = pipeline.predict({"prompt": ["a", ""], "choices": [["x", "y", ""], ["x", "y", "z"]]}, verbose=0)
    found = pipeline.predict({"prompt": ["a", None], "choices": [["x", "y", None], ["x", "y", "z"]]}, verbose=0)
    assert_same_answers(found, expected)


def test_missing_texts_are_counted_in_training_and_evaluation(caplog):
    pipeline = classifier()
    pipeline.compile()
    texts, labels = ["good", None, "", "bad"], [0, 1, 0, 1]
    pipeline.fit(texts, labels, verbose=0)
    pipeline.evaluate(texts, labels, verbose=0)
    messages = [record.getMessage() for record in caplog.records if "empty" in record.getMessage()]
    assert len(messages) == 2 and all("2 of 4 texts in 'text' are empty" in message for message in messages)


def test_missing_texts_are_counted_where_masks_are_learned(caplog):
    pipeline = kbert.build_pipeline(kbert.BertPretrainer(tiny_config(num_layers=1)), tiny_tokenizer())
    pipeline.compile()
    pipeline.fit([{"text": text} for text in ("good film", None, "bad film", "the film")], batch_size=2, verbose=0)
    (message,) = (record.getMessage() for record in caplog.records if "empty" in record.getMessage())
    assert "1 of 4 texts in 'text' are empty" in message and "row 1" in message


def test_other_values_are_still_refused():
    for texts, expected in (([1.0, None], "expected str. Received: 1.0"), (None, "expected str. Received: None")):
        with pytest.raises((ValueError, TypeError), match=expected):
            classifier().predict({"text": texts})
