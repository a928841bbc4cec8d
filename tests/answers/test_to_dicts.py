"""Answers as plain rows."""

import json

import numpy as np
import pytest
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

from kbert import BertClassifier, BertPretrainer, BertRegressor, build_pipeline

pytestmark = pytest.mark.usefixtures("eagerly")


def rows_of(model, texts, **arguments):
    pipeline = build_pipeline(randomise(model(tiny_config())), tiny_tokenizer(), **arguments)
    answers = pipeline.predict(texts, verbose=0)
    return list(pipeline.answers.to_dicts(answers)), answers


def test_classification():
    rows, answers = rows_of(BertClassifier, ["good", "bad"], labels=["no", "yes"])
    assert [row["label"] for row in rows] == answers["label"].tolist()
    for row, probabilities in zip(rows, answers["probabilities"], strict=True):
        assert list(row["probabilities"]) == ["no", "yes"]
        assert list(row["probabilities"].values()) == pytest.approx(probabilities)
        assert max(row["probabilities"], key=row["probabilities"].get) == row["label"]
    assert json.loads(json.dumps(rows)) == rows


def test_regression():
    rows, answers = rows_of(BertRegressor, ["good", "bad", ""])
    assert rows == [{"score": score} for score in answers["score"].tolist()]
    assert all(type(row["score"]) is float for row in rows)


def test_fill_mask():
    rows, answers = rows_of(BertPretrainer, ["[MASK] film [MASK]", "none"], max_masks=3, top_k=2)
    assert [len(row["masks"]) for row in rows] == [2, 0]
    assert [entry["token"] for entry in rows[0]["masks"][1]] == answers["tokens"][0, 1].tolist()
    np.testing.assert_allclose([e["probability"] for e in rows[0]["masks"][1]], answers["probabilities"][0, 1])
    assert json.loads(json.dumps(rows)) == rows
