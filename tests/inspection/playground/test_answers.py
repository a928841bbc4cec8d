"""The tab Ask: answers are those of the pipelines, within the limits of a served model."""

import numpy as np
import pytest
from helpers.served_models import make_pipeline
from helpers.stored_models import make_model
from helpers.tiny_bert import tiny_tokenizer

import kbert
from kbert.inspection.playground.answers import ask, form_of

TEXTS = {
    "fill_mask": ["Paris is the [MASK] of [MASK]."],
    "single": ["The film is é good."],
    "pair": ["The film is é good.", "very bad !"],
    "regression": ["The film is é good.", "very bad !"],
    "next_sentence": ["The film is é good.", "very bad !"],
    "span": ["the capital of France", "The film is é good. 中 a film of London was never very bad of london !"],
}


def predicted(pipeline, columns):
    (row,) = pipeline.answers.to_dicts(pipeline.predict_on_batch(columns))
    return row


def near(row):
    """The row with numbers to five digits."""
    if isinstance(row, dict):
        return {name: near(value) for name, value in row.items()}
    return [near(value) for value in row] if isinstance(row, list) else pytest.approx(row, abs=1e-5)


@pytest.mark.parametrize("kind", TEXTS)
def test_answers_are_those_of_the_pipeline(kind):
    pipeline, _ = make_pipeline(kind)
    expected = predicted(pipeline, {n: [text] for n, text in zip(pipeline.input_names, TEXTS[kind], strict=True)})
    assert len(form_of(pipeline).fields) == len(TEXTS[kind])
    assert ask(pipeline, TEXTS[kind]) == near(expected)


def test_taggers_answer_entities():
    pipeline, _ = make_pipeline("tagging")
    text = "The capital Paris london, a film."
    (entities,) = ask(pipeline, [text]).values()
    assert entities and {one["type"] for one in entities} == {"LOC"}
    assert all(text[one["start"] : one["end"]] == one["entity"] for one in entities)


def test_choices_are_lines():
    pipeline, _ = make_pipeline("multiple_choice")
    expected = predicted(pipeline, {"prompt": ["The film is"], "choices": [["good", "very bad"]]})
    answer = ask(pipeline, ["The film is", "good\n\n very bad \n"])
    assert answer["choice"] == expected["choice"] and list(answer["probabilities"]) == ["good", "very bad"]
    assert list(answer["probabilities"].values()) == pytest.approx(expected["probabilities"], abs=1e-5)


def test_equal_choices_are_one_choice():
    pipeline, _ = make_pipeline("multiple_choice")
    answer = ask(pipeline, ["The film is", "good\nvery bad\n good"])
    assert answer == ask(pipeline, ["The film is", "good\nvery bad"])
    assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_an_encoder_of_pairs_has_no_form():
    pipeline = kbert.build_pipeline(make_model("encoder"), tiny_tokenizer(), pair=True)
    with pytest.raises(ValueError, match=r"cannot ask the encoder model, which reads \['text', 'text_pair'\]"):
        ask(pipeline, ["the film", "good film"])


@pytest.mark.parametrize("task", ["similarity", "encoder"])
def test_similarities_of_lines(task):
    pipeline = kbert.build_pipeline(make_model(task), tiny_tokenizer())
    answer = ask(pipeline, ["the film", "good film\nthe film\n\nnever"])
    vectors = pipeline.predict_on_batch(["the film", "good film", "never"])["embedding"]
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = {"good film": vectors[0] @ vectors[1], "the film": 1.0, "never": vectors[0] @ vectors[2]}
    assert dict(answer["similarities"]) == pytest.approx(cosines, abs=1e-5)
    assert ask(pipeline, ["the film", " \n"]) == {"similarities": []}


@pytest.mark.parametrize(
    "texts, message",
    [
        (["good " * 300_000], "A request may hold at most 1048576 bytes of text. Received: 1500000"),
        (["good " * 200_000], r"A request may hold at most \d+ .*Received: \d+"),
    ],
)
def test_long_texts_are_refused_as_by_a_served_model(texts, message):
    pipeline, _ = make_pipeline("tagging")  # which reads a long text in windows
    with pytest.raises(ValueError, match=message) as error:
        ask(pipeline, texts)
    assert not any(word in str(error.value) for word in ("\n", "Assert", "export"))
