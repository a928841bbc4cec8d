"""An ensemble gives the means of its models."""

import numpy as np
import pytest
from helpers.compare import softmax
from helpers.tiny_bert import TEXTS, randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.answers import NextSentenceAnswers
from kbert.models.average import average_models
from kbert.pipelines.registry import task_class
from kbert.preprocessing.preprocessor import TextPreprocessor

ONE = tiny_config(num_layers=1)
BATCH = {k: v.numpy() for k, v in TextPreprocessor(tiny_tokenizer(), 19)(TEXTS).items()}


def outputs(model):
    return {name: np.asarray(value) for name, value in model(BATCH).items()}


@pytest.mark.usefixtures("eagerly")
def test_classifiers_by_their_probabilities():
    models = [randomise(kbert.BertClassifier(ONE, num_labels=3), seed) for seed in range(3)]
    ensemble = average_models(models)
    expected = np.mean([softmax(outputs(model)["logits"]) for model in models], axis=0)
    np.testing.assert_allclose(softmax(outputs(ensemble)["logits"]), expected, atol=1e-6)
    assert (ensemble.task, ensemble.num_labels, ensemble.config) == ("classification", 3, models[0].config)
    pipeline = kbert.build_pipeline(ensemble, tiny_tokenizer(), labels=["a", "b", "c"])
    np.testing.assert_allclose(pipeline.predict(TEXTS)["probabilities"], expected, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_in_another_precision():
    first, second = (randomise(kbert.BertClassifier(ONE, num_labels=3), seed) for seed in range(2))
    pipeline = kbert.build_pipeline(average_models([first, first, second]), tiny_tokenizer())
    half = pipeline.in_precision("bfloat16")
    assert {weight.dtype for weight in half.model.weights} == {"bfloat16"}
    assert (pipeline.model.dtype_policy.name, half.model.dtype_policy.name) == ("float32", "bfloat16")
    found, expected = (each.predict(TEXTS)["probabilities"] for each in (half, pipeline))
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert np.any(found != expected)


@pytest.mark.usefixtures("eagerly")
def test_of_ensembles_and_models_with_lora():
    first, second = (randomise(kbert.BertClassifier(ONE, num_labels=3), seed) for seed in range(2))
    second.enable_lora(2)
    randomise(second, 3)
    pipeline = kbert.build_pipeline(average_models([average_models([first, second]), second]), tiny_tokenizer())
    expected = pipeline.predict(TEXTS)["probabilities"]
    for other, atol in ((pipeline.merged(), 1e-5), (pipeline.merged().in_precision("bfloat16"), 0.02)):
        np.testing.assert_allclose(other.predict(TEXTS)["probabilities"], expected, atol=atol)


def test_span_extractors_and_regressors_by_their_scores():
    for kind in (kbert.BertSpanExtractor, kbert.BertRegressor):
        models = [randomise(kind(ONE), seed) for seed in range(2)]
        received = outputs(average_models(models))
        for name, value in received.items():
            np.testing.assert_allclose(value, np.mean([outputs(m)[name] for m in models], axis=0), atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_the_next_sentence_signature_is_the_mean_too():
    models = [randomise(kbert.BertPretrainer(ONE), seed) for seed in range(2)]
    pipeline = kbert.build_pipeline(average_models([models[0], average_models(models)]), tiny_tokenizer())
    signature = task_class("pretraining").signatures(pipeline)["next_sentence"]
    inputs = {"text": TEXTS, "text_pair": TEXTS[::-1]}
    batch = signature.preprocessor(inputs)
    received = signature.finish(batch, inputs)
    rows = {name: np.asarray(value) for name, value in batch.items()}
    masks = {"mask_positions": np.zeros((len(TEXTS), 1), "int32")}
    expected = NextSentenceAnswers()(pipeline.model(rows | masks), batch)
    np.testing.assert_allclose(received["is_next"], expected["is_next"], atol=1e-5)


def test_what_an_ensemble_cannot(tmp_path):
    pipeline = kbert.build_pipeline(
        average_models([kbert.BertRegressor(ONE), kbert.BertRegressor(ONE)]), tiny_tokenizer()
    )
    with pytest.raises(ValueError, match="^an ensemble cannot be saved. Save its members"):
        kbert.save_pretrained(pipeline, tmp_path / "it")
    with pytest.raises(ValueError, match="^an ensemble cannot be saved. Save its members"):
        pipeline.save(tmp_path / "it.keras")
    with pytest.raises(ValueError, match="inspect: `model` must be a single model. Received: an ensemble"):
        kbert.inspect(pipeline)
    with pytest.raises(ValueError, match="finetune: `source` must be a single model. Received: an ensemble"):
        kbert.finetune(pipeline, kbert.tasks.Regression(), [("a", 0.5)], steps=1)
    encoders = average_models([kbert.BertEncoder(ONE), kbert.BertEncoder(ONE)])
    with pytest.raises(ValueError, match="export: an ensemble of encoders has no hidden states"):
        kbert.export(kbert.build_pipeline(encoders, tiny_tokenizer()), tmp_path / "served")
    assert not (tmp_path / "it").exists() and not (tmp_path / "served").exists()


def test_one_model_is_its_own_mean_and_others_must_be_alike():
    model = kbert.BertClassifier(ONE, num_labels=3)
    assert average_models([model]) is model
    for models in ([], [model, kbert.BertClassifier(ONE, num_labels=2)], [model, kbert.BertRegressor(ONE)]):
        with pytest.raises(ValueError, match="expected models of one task, inputs and outputs"):
            average_models(models)
