"""Answers are those of the pipeline, with their places in the text."""

import pytest
from helpers.served_models import make_pipeline

pytestmark = pytest.mark.usefixtures("eagerly")  # the playground traces none of this; `predicted` need not, either

MASKED = "Paris is the [MASK] of [MASK]."
QUESTION, CONTEXT = "the capital of France", "The film is é good. 中 a film of London was never very bad of london !"


def predicted(kind, **columns):
    pipeline, _ = make_pipeline(kind)
    answers = pipeline.predict_on_batch({name: [value] for name, value in columns.items()})
    return next(iter(pipeline.answers.to_dicts(answers)))


def close(value):
    return pytest.approx(value, abs=1e-5)


def test_fill_mask(ask):
    answer = ask("fill_mask", model="fill_mask", text=MASKED, top=4)
    tokens = [token["token"] for token in answer["tokens"]]
    assert [n for n, token in enumerate(tokens) if token == "[MASK]"] == [f["position"] for f in answer["fills"]]
    for fill, expected in zip(answer["fills"], predicted("fill_mask", text=MASKED)["masks"], strict=True):
        assert [one["token"] for one in fill["candidates"]] == [one["token"] for one in expected]
        fractions = [one["probability"] for one in fill["candidates"]]
        assert fractions == close([one["probability"] for one in expected])
    best = [fill["candidates"][0]["token"] for fill in answer["fills"]]
    text = MASKED
    for token in best:
        text = text.replace(" [MASK]", token[2:] if token.startswith("##") else f" {token}", 1)
    assert answer["texts"] == [text]
    for token in answer["tokens"][1:-1]:
        assert MASKED[token["start"] : token["end"]].lower() == token["token"].lower().removeprefix("##")


def test_the_part_of_a_long_text_around_its_first_mask_is_kept(ask):
    text = "good " * 40 + "[MASK] film " + "bad " * 40
    answer = ask("fill_mask", model="fill_mask", text=text)
    (mask,) = [token for token in answer["tokens"] if token["token"] == "[MASK]"]
    assert len(answer["tokens"]) == 19 and text[mask["start"] : mask["end"]] == "[MASK]"
    assert [text[t["start"] : t["end"]] for t in answer["tokens"][1:-1]] == [t["token"] for t in answer["tokens"][1:-1]]


def test_a_text_without_masks(ask):
    assert ask("fill_mask", model="fill_mask", text="a film")["fills"] == []


def test_question_answering(ask):
    answer = ask("question_answering", model="span", question=QUESTION, context=CONTEXT)
    expected = predicted("span", question=QUESTION, context=CONTEXT)
    assert {name: answer[name] for name in ("answer", "start", "end")} == {
        n: expected[n] for n in ("answer", "start", "end")
    }
    assert answer["score"] == close(expected["score"]) and answer["null_score"] == close(expected["null_score"])
    first = answer["candidates"][0]
    start = CONTEXT.index("London")
    assert first["answer"] == answer["answer"] == "London" and (first["start"], first["end"]) == (start, start + 6)
    assert first["score"] == close(answer["score"])
    scores = [one["score"] for one in answer["candidates"]]
    assert len(scores) > 2 and scores == sorted(scores, reverse=True)
    assert all(CONTEXT[one["start"] : one["end"]] == one["answer"] for one in answer["candidates"])
    listed = [entry["answer"] for entry in expected["n_best"] if entry["answer"]]
    assert [one["answer"] for one in answer["candidates"]][: len(listed)] == listed


def test_no_answer(ask):
    answer = ask("question_answering", model="span", question=QUESTION, context="a good film")
    assert (answer["answer"], answer["start"], answer["end"]) == ("", -1, -1)
    empty = ask("question_answering", model="span", question="", context="")
    assert empty["answer"] == "" and empty["candidates"] == []


def test_entities(ask):
    text = "The capital Paris london, a film of é London."
    answer = ask("entities", model="tagging", text=text)
    expected = predicted("tagging", text=text)
    assert answer["words"] == [word["word"] for word in expected["words"]]
    assert answer["tags"] == [word["tag"] for word in expected["words"]]
    found = [(one["text"], one["type"], text[one["start"] : one["end"]]) for one in answer["entities"]]
    assert found == [
        ("capital", "LOC", "capital"),
        ("Paris london", "LOC", "Paris london"),
        ("London", "LOC", "London"),
    ]
    assert all(0 < one["score"] <= 1 for one in answer["entities"])


def test_classification(ask):
    expected = predicted("single", text="The film is good.")
    answer = ask("classification", model="single", text="The film is good.", text_pair=None)
    assert answer["label"] == expected["label"] == answer["probabilities"][0]["label"]
    fractions = {one["label"]: one["probability"] for one in answer["probabilities"]}
    assert fractions == close(expected["probabilities"])
    expected = predicted("pair", text="Good?", text_pair="never")
    assert ask("classification", model="pair", text="Good?", text_pair="never")["label"] == expected["label"]
    missing = ask("classification", 400, model="pair", text="Good?")["error"]
    assert "`text_pair`: expected a string, as this model reads pairs" in missing


def test_regression(ask):
    expected = predicted("regression", text="Good?", text_pair="never")
    assert ask("classification", model="regression", text="Good?", text_pair="never") == {
        "score": close(expected["score"])
    }


@pytest.mark.parametrize(
    "view, question",
    [
        ("fill_mask", {"text": "a [MASK]"}),
        ("question_answering", {"question": "a", "context": "b"}),
        ("entities", {"text": "a"}),
        ("classification", {"text": "a"}),
    ],
)
def test_models_of_other_tasks_and_none(ask, view, question):
    assert "Received: no model" in ask(view, 400, model=None, **question)["error"]
    assert "Received: one of the task encoder" in ask(view, 400, model="encoder", **question)["error"]
