"""The span pipeline: the same answers in Python, from .keras, from a kbert directory and from a SavedModel."""

import pytest
from helpers.compare import assert_same_answers
from helpers.run_eagerly import run_eagerly
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert

CONTEXT = "Paris \U0001f600 is the capital of France. 中文 London was a good film! " * 6
COLUMNS = {
    "question": ["What is the capital?", "", "Who?", "a very very very very long question of the film is good" * 3, ""],
    "context": [CONTEXT, "Paris", "", "naïve É films", "was it? " * 20],
}


@pytest.fixture(scope="module")
def pipeline():
    model = randomise(kbert.BertSpanExtractor(tiny_config()))
    return kbert.build_pipeline(
        model, tiny_tokenizer(), doc_stride=3, max_query_length=5, n_best=4, max_answer_length=6, null_threshold=-0.5
    )


@pytest.fixture(scope="module")
def answers(pipeline):
    with run_eagerly():  # in a graph: the export below
        return pipeline.predict(COLUMNS)


def test_answers_are_substrings(pipeline, answers):
    assert {name: value.shape for name, value in answers.items()} == {
        **dict.fromkeys(("answer", "score", "start", "end", "null_score", "n_best_count"), (5,)),
        **dict.fromkeys(("n_best_answers", "n_best_scores"), (5, 5)),
    }
    for i, context in enumerate(COLUMNS["context"]):
        start, end = answers["start"][i], answers["end"][i]
        assert answers["answer"][i] == ("" if start < 0 else context[start:end])
        is_null = answers["null_score"][i] - answers["score"][i] > -0.5
        assert is_null == (start < 0)
        assert all(text in context for text in answers["n_best_answers"][i])
        assert answers["n_best_scores"][i].sum() == pytest.approx(1, abs=1e-5)
    assert any(answers["start"] >= 0)


@pytest.mark.usefixtures("eagerly")
def test_in_whatever_batch(pipeline, answers):
    assert_same_answers(pipeline.predict(COLUMNS, batch_size=2), answers)


def test_rows_to_write(pipeline, answers):
    rows = list(pipeline.answers.to_dicts(answers))
    assert [row["answer"] for row in rows] == answers["answer"].tolist()
    for row, texts, scores in zip(rows, answers["n_best_answers"], answers["n_best_scores"], strict=True):
        assert list(row) == ["answer", "score", "start", "end", "null_score", "n_best"]
        assert [e["probability"] for e in row["n_best"]] == [float(s) for s in scores[: len(row["n_best"])]]
        assert [e["answer"] for e in row["n_best"]] == texts[: len(row["n_best"])].tolist()
        assert isinstance(row["start"], int) and isinstance(row["score"], float)
    assert rows[2]["n_best"] == [{"answer": "", "probability": 1.0}]


def test_defaults():
    settings = kbert.build_pipeline(kbert.BertSpanExtractor(tiny_config()), tiny_tokenizer()).settings()
    assert settings["null_threshold"] is None
    expected = {"sequence_length": 19, "doc_stride": 128, "max_query_length": 64, "n_best": 20, "max_answer_length": 30}
    assert {name: settings[name] for name in expected} == expected
    assert (
        kbert.build_pipeline(
            kbert.BertSpanExtractor(tiny_config(max_sequence_length=512)), tiny_tokenizer()
        ).settings()["sequence_length"]
        == 384
    )
