"""The playground asks SavedModels: they give the answers of their signatures, and what they cannot show is said."""

import pytest
from helpers.playground import asking
from helpers.tiny_bert import VOCABULARY
from werkzeug.test import Client

from kbert.inspection.playground.app import PlaygroundApp
from kbert.inspection.playground.sources import found_sources
from kbert.text.vocabulary import write_vocabulary

KINDS = ("fill_mask", "span", "tagging", "single")
MASKED = "Paris is the [MASK] of [MASK]."
QUESTION, CONTEXT = "the capital of France", "The film is é good. 中 a film of London was never very bad of london !"
WORDS = "The capital Paris london, a film."


@pytest.fixture(scope="module")
def app(served_models, tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    write_vocabulary(path, VOCABULARY)
    return PlaygroundApp([served_models[kind].path for kind in KINDS], vocabulary=path)


@pytest.fixture(scope="module")
def ask(app):
    return asking(app)


def predicted(served_models, kind, **columns):
    pipeline = served_models[kind].pipeline
    answers = pipeline.predict_on_batch({name: [value] for name, value in columns.items()})
    return next(iter(pipeline.answers.to_dicts(answers)))


def test_what_is_said_of_them(app):
    models = {model["name"]: model for model in Client(app).get("/api/models").json["models"]}
    assert {model["kind"] for model in models.values()} == {"saved_model"} and tuple(models) == KINDS
    assert models["fill_mask"]["views"] == ["fill_mask", "next_sentence"]
    assert models["span"]["views"] == ["question_answering"]
    assert "(fill_mask, next_sentence, serving_default)" in models["fill_mask"]["note"]
    assert models["fill_mask"]["layers"] is None and models["fill_mask"]["max_length"] == 19


def test_filled_masks(ask, served_models):
    answer = ask("fill_mask", model="fill_mask", text=MASKED, top=3)
    expected = predicted(served_models, "fill_mask", text=MASKED)["masks"]
    assert answer["tokens"] == [] and [fill["position"] for fill in answer["fills"]] == [None, None]
    for fill, masks in zip(answer["fills"], expected, strict=True):
        assert [one["token"] for one in fill["candidates"]] == [one["token"] for one in masks[:3]]
    assert len(answer["texts"]) == 1 and "[MASK]" not in answer["texts"][0]


def test_answers_to_questions(ask, served_models):
    answer = ask("question_answering", model="span", question=QUESTION, context=CONTEXT)
    expected = predicted(served_models, "span", question=QUESTION, context=CONTEXT)
    start = CONTEXT.index("London")
    assert (answer["answer"], answer["start"], answer["end"]) == ("London", start, start + 6)
    assert answer["score"] == pytest.approx(expected["score"], abs=1e-4)
    first, *others = answer["candidates"]
    assert (first["answer"], first["start"], first["end"]) == ("London", start, start + 6) and others
    assert all(one["start"] is one["end"] is None for one in others)
    # The scores of the others follow from their probabilities: those of the model itself.
    served = served_models["span"]
    batch = served.pipeline.preprocessor({"question": [QUESTION], "context": [CONTEXT]})
    outputs = served.pipeline.model({name: batch[name] for name in served.pipeline.model.input})
    _, scores, _, _, texts = served.pipeline.answers.candidates(outputs, batch)
    known = dict(zip((text.decode() for text in texts.numpy()), scores.numpy(), strict=True))
    for one in answer["candidates"]:
        assert one["score"] == pytest.approx(known[one["answer"]], abs=1e-3)


@pytest.mark.slow  # test_answers_to_questions
def test_entities_and_labels(ask, served_models):
    answer, expected = ask("entities", model="tagging", text=WORDS), predicted(served_models, "tagging", text=WORDS)
    assert answer["words"] == [word["word"] for word in expected["words"]]
    assert answer["tags"] == [word["tag"] for word in expected["words"]]
    assert [one["text"] for one in answer["entities"]] == ["capital", "Paris london"]
    assert all(WORDS[one["start"] : one["end"]] == one["text"] for one in answer["entities"])
    label = predicted(served_models, "single", text="a bad film")["label"]
    assert ask("classification", model="single", text="a bad film")["label"] == label


def test_it_judges_the_sentences_of_a_pair(ask):
    question = {"document": "The film is good. A bad film.", "other": "Paris is the capital.", "seed": 1}
    answer = ask("next_sentence", model="fill_mask", **question)
    without = ask("next_sentence", model=None, **question)
    assert answer["pair"]["label"] == without["pair"]["label"] and without["verdict"] is None
    assert 0 < answer["verdict"]["is_next"] < 1
    assert "Received: a SavedModel of the task span" in ask("next_sentence", 400, model="span", **question)["error"]


@pytest.mark.parametrize("view", ["masking", "input_representation", "attention"])
def test_what_cannot_be_shown(ask, view):
    assert "a SavedModel, which only gives answers" in ask(view, 400, model="fill_mask", text="a")["error"]


def test_beyond_the_limits_of_the_export(ask):
    assert "Received: " in ask("classification", 400, model="single", text="good " * 250_000)["error"]


def test_below_a_log_directory(served_models):
    directory = served_models["single"].path.parents[1]
    assert "single" in [source.name for source in found_sources([directory])]
