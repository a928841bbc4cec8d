"""Multiple choice from strings to the best choice: predicted, stored, exported."""

import keras
import numpy as np
import pytest
from helpers.run_eagerly import run_eagerly
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert

PROMPTS = ["The film is good.", "A very bad film!", "paris is"]
CHOICES = [["never", "good", "bad film"], ["the capital of France", "london"], ["é", "very", "a", "the"]]


@pytest.fixture(scope="module")
def pipeline():
    keras.utils.set_random_seed(1)
    return kbert.build_pipeline(randomise(kbert.BertMultipleChoice(tiny_config())), tiny_tokenizer())


@pytest.fixture(scope="module")
def answers(pipeline):
    with run_eagerly():
        return pipeline.predict({"prompt": PROMPTS, "choices": CHOICES}, verbose=0)


@pytest.mark.usefixtures("eagerly")
def test_each_question_is_answered_as_it_would_be_alone(pipeline, answers):
    assert answers["probabilities"].shape == (3, 4)
    for n, (prompt, choices) in enumerate(zip(PROMPTS, CHOICES, strict=True)):
        alone = pipeline.predict({"prompt": [prompt], "choices": [choices]}, verbose=0)
        assert answers["choice"][n] == alone["choice"][0] == np.argmax(alone["probabilities"][0])
        np.testing.assert_allclose(answers["probabilities"][n, : len(choices)], alone["probabilities"][0], atol=1e-5)
        assert answers["probabilities"][n, len(choices) :].sum() == 0
    assert answers["probabilities"].sum(axis=1) == pytest.approx(np.ones(3), abs=1e-5)


def test_rows_for_a_file(pipeline, answers):
    rows = list(pipeline.answers.to_dicts(answers))
    assert rows[1]["choice"] == int(answers["choice"][1])
    assert rows[1]["probabilities"] == answers["probabilities"][1].tolist()


@pytest.mark.usefixtures("eagerly")
def test_stored_and_read_again(pipeline, answers, tmp_path):
    kbert.save_pretrained(pipeline, tmp_path / "model")
    again = kbert.build_pipeline(kbert.load_pretrained(tmp_path / "model"))
    received = again.predict({"prompt": PROMPTS, "choices": CHOICES}, verbose=0)
    np.testing.assert_allclose(received["probabilities"], answers["probabilities"], atol=1e-6)
    pipeline.save(tmp_path / "p.keras")
    received = keras.models.load_model(tmp_path / "p.keras").predict({"prompt": PROMPTS, "choices": CHOICES}, verbose=0)
    np.testing.assert_allclose(received["probabilities"], answers["probabilities"], atol=1e-6)
