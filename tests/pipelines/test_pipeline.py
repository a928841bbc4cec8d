"""Pipelines: strings to answers, the way a Keras user works with a model."""

import copy
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.compare import assert_same_answers
from helpers.slow_but import slow_but
from helpers.tiny_bert import PAIRS, TEXTS, randomise, tiny_config, tiny_tokenizer

import kbert
from kbert import BertClassifier, BertPretrainer, BertRegressor, Pipeline, build_pipeline
from kbert.models.lora import dense_layers

LABELS = ["bad", "good", "neither ß"]


@functools.cache
def make(kind):
    """(pipeline, columns to ask it), the same ones each time, so leave them as they are."""
    config, tokenizer = tiny_config(num_layers=1), tiny_tokenizer()
    if kind == "single":
        model = BertClassifier(config, num_labels=3)
        return build_pipeline(randomise(model), tokenizer, labels=LABELS, sequence_length=11), {"text": TEXTS}
    if kind == "pair":
        model = BertClassifier(config, num_labels=2)
        model = randomise(model, seed=1, scale=0.6)  # larger weights make more of rounding than of the texts
        pipeline = build_pipeline(model, tokenizer, sequence_length=13, pair=True)
        return pipeline, {"text": TEXTS, "text_pair": PAIRS}
    if kind == "regression":
        return build_pipeline(randomise(BertRegressor(config)), tokenizer, pair=True), {
            "text": TEXTS,
            "text_pair": PAIRS,
        }
    model = BertPretrainer(config, next_sentence=kind == "pretraining")
    pipeline = build_pipeline(randomise(model), tokenizer, max_masks=3, top_k=4)
    return pipeline, {"text": ["Paris is [MASK].", "the [MASK] [MASK] of [MASK] [MASK]", "no mask", ""]}


KINDS = slow_but(  # "pair" as "single", "pretraining" as "masked_lm"
    ("single", "regression", "masked_lm"), ("single", "pair", "regression", "masked_lm", "pretraining")
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("eagerly")  # in a graph: test_run_in_length_buckets.py and what is exported
def test_the_answers_are_those_of_its_parts(kind):
    pipeline, columns = make(kind)
    batch = pipeline.preprocessor(columns)
    outputs = pipeline.model.predict({name: batch[name] for name in pipeline.model.input}, verbose=0)
    answers = pipeline.predict(columns, verbose=0)
    if kind == "regression":
        np.testing.assert_allclose(answers["score"], outputs["score"], atol=1e-5)
    elif kind in ("single", "pair"):
        odds = np.exp(outputs["logits"])
        np.testing.assert_allclose(answers["probabilities"], odds / odds.sum(axis=1, keepdims=True), atol=1e-5)
        names = LABELS if kind == "single" else ["0", "1"]
        assert answers["label"].tolist() == [names[i] for i in outputs["logits"].argmax(axis=1)]
        assert len(set(answers["label"])) > 1  # else the comparison would say little
    else:
        assert answers["count"].tolist() == [1, 3, 0, 0]
        odds = np.exp(outputs["mlm_logits"])
        probabilities = odds / odds.sum(axis=-1, keepdims=True)
        best = np.argsort(-probabilities[1, 2])[:4]
        np.testing.assert_allclose(answers["probabilities"][1, 2], probabilities[1, 2][best], atol=1e-5)
        assert answers["tokens"][1, 2].tolist() == [pipeline.tokenizer.id_to_token(int(i)) for i in best]
        assert set(answers["tokens"][2].ravel()) == {""} and not answers["probabilities"][2].any()


@pytest.mark.parametrize("kind", slow_but(("pair",), ("single", "pair", "masked_lm")))
@pytest.mark.usefixtures("eagerly")
def test_all_ways_to_give_strings(kind):
    pipeline, columns = make(kind)
    expected = pipeline.predict(columns, verbose=0)
    names = list(columns)
    dataset = tf.data.Dataset.from_tensor_slices(columns).batch(3)
    ways = [
        {name: np.array(columns[name]) for name in names},
        {name: np.array(columns[name], object) for name in names},
        {name: tf.constant(columns[name]) for name in names},
        {name: tf.constant(columns[name])[:, tf.newaxis] for name in names},
        {**columns, "other": [1, 2, 3, 4]},
        dataset,
        dataset.map(lambda x: (x, 0)),
    ]
    if kind != "pair":
        ways += [columns["text"], np.array(columns["text"])]
    for way in ways:
        assert_same_answers(pipeline.predict(way, verbose=0), expected)
    assert_same_answers(pipeline.predict(columns, batch_size=3, verbose=0), expected)
    assert_same_answers(pipeline.predict_on_batch(columns), expected)
    assert_same_answers(
        pipeline.predict(dataset, steps=1, verbose=0), {name: value[:3] for name, value in expected.items()}
    )
    for way in ways[:5]:
        called = pipeline(way)
        assert all(tf.is_tensor(value) for value in called.values())
        assert_same_answers(called, {name: _as_bytes(value) for name, value in expected.items()})


def _as_bytes(value):
    if value.dtype != object:
        return value
    return np.array([x.encode() for x in value.ravel()], object).reshape(value.shape)


@pytest.mark.usefixtures("eagerly")
def test_an_answer_does_not_depend_on_its_batch():
    pipeline, columns = make("pair")
    together = pipeline.predict(columns, verbose=0)
    for i in range(4):
        alone = pipeline.predict({name: column[i : i + 1] for name, column in columns.items()}, verbose=0)
        assert_same_answers(alone, {name: value[i : i + 1] for name, value in together.items()})


@pytest.mark.parametrize("kind", slow_but(("masked_lm",), ("single", "pair", "regression", "masked_lm", "pretraining")))
@pytest.mark.usefixtures("eagerly")
def test_saving_in_the_keras_format(kind, tmp_path):
    pipeline, columns = make(kind)
    expected = pipeline.predict(columns, verbose=0)
    pipeline.save(tmp_path / "pipeline.keras")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "pipeline.keras").rename(tmp_path / "elsewhere" / "moved.keras")
    loaded = keras.saving.load_model(tmp_path / "elsewhere" / "moved.keras")
    assert isinstance(loaded, Pipeline) and type(loaded.model) is type(pipeline.model)
    assert_same_answers(loaded.predict(columns, verbose=0), expected)
    assert loaded.settings() == pipeline.settings()
    assert loaded.tokenizer.vocabulary == pipeline.tokenizer.vocabulary
    if kind == "masked_lm":
        assert loaded.answers.tokenizer is loaded.preprocessor.tokenizer


@pytest.mark.usefixtures("eagerly")
def test_copies_keep_labels_and_tokenizer():
    pipeline, columns = make("single")
    expected = pipeline.predict(columns, verbose=0)
    copied = copy.deepcopy(pipeline)
    assert isinstance(copied, Pipeline) and copied.tokenizer.vocabulary == pipeline.tokenizer.vocabulary
    assert_same_answers(copied.predict(columns, verbose=0), expected)
    clone = keras.models.clone_model(pipeline)  # a plain functional model, as of every subclass in Keras
    clone.set_weights(pipeline.get_weights())
    assert_same_answers(clone({"text": tf.constant(TEXTS)}), pipeline(columns))


@pytest.mark.parametrize("ending", ["h5", "hdf5"])
def test_hdf5_is_refused_when_it_is_saved(ending, tmp_path):
    pipeline, _ = make("single")
    for model in (pipeline, pipeline.model, pipeline.model.encoder):
        with pytest.raises(ValueError, match=rf"HDF5 files\. Received: .*x\.{ending}'\. Save a `\.keras` file"):
            model.save(tmp_path / f"x.{ending}")
    assert not list(tmp_path.iterdir())
    pipeline.save_weights(tmp_path / "x.weights.h5")


def test_export_has_kerass_meaning(tmp_path):
    pipeline, columns = make("pair")
    expected = pipeline(columns)
    pipeline.export(tmp_path / "exported", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "exported")
    tensors = {name: tf.constant(column) for name, column in columns.items()}
    for answers in (loaded.serve(tensors), loaded.signatures["serving_default"](**tensors)):
        assert_same_answers(answers, expected)


@pytest.mark.usefixtures("eagerly")
def test_mixed_precision_gives_float32_answers():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        pipeline, columns = make.__wrapped__("single")
    finally:
        keras.config.set_dtype_policy("float32")
    assert pipeline.model.encoder.dtype_policy.name == "mixed_bfloat16"
    probabilities = pipeline.predict(columns, verbose=0)["probabilities"]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-5)
    assert probabilities.dtype == np.float32


@pytest.mark.parametrize("kind", slow_but(("pair", "masked_lm"), ("single", "pair", "regression", "masked_lm")))
@pytest.mark.usefixtures("eagerly")
def test_nothing_is_answered_by_nothing(kind):
    pipeline, strings = make(kind)
    answers = pipeline.predict({name: [] for name in strings}, verbose=0)
    assert answers.keys() == pipeline.predict(strings, verbose=0).keys()
    assert {len(answer) for answer in answers.values()} == {0}


def test_errors():
    pipeline, columns = make("pair")
    with pytest.raises(ValueError, match=r"missing: \['text_pair'\]"):
        pipeline.predict({"text": TEXTS})
    with pytest.raises(ValueError, match="expected a dict"):
        pipeline.predict(TEXTS)
    with pytest.raises(ValueError, match=r"columns of one length. Received: .'text': 2, 'text_pair': 1"):
        pipeline.predict({"text": TEXTS[:2], "text_pair": PAIRS[:1]})
    with pytest.raises(ValueError, match="a list of one"):
        make("single")[0].predict("one text")
    with pytest.raises(TypeError, match="must hold strings"):
        make("single")[0].predict(np.zeros(3))
    with pytest.raises(ValueError, match=r"missing: \['mask_positions'\]"):
        Pipeline(pipeline.preprocessor, BertPretrainer(tiny_config()), pipeline.answers)


@pytest.mark.usefixtures("eagerly")
def test_inputs_of_another_model_are_not_ignored():
    """A pair for a model of single texts is an error, which says how the model takes pairs."""
    single, columns = make("single")
    pairs = {"text": TEXTS, "text_pair": PAIRS}
    message = (
        r"Pipeline: this classification model takes \['text'\]. Received: also \['text_pair'\]. Leave them out, or "
        r"make it a model for pairs: kbert.build_pipeline\(model, pair=True\); --pair of the commands"
    )
    dataset = tf.data.Dataset.from_tensor_slices(pairs).batch(2)
    for ask in (single.predict, single.predict_on_batch, single, lambda x: single.evaluate(x, [0] * 4)):
        with pytest.raises(ValueError, match=message):
            ask(pairs)
    with pytest.raises(ValueError, match=r"this classification model takes \['text'\]"):
        single.predict(dataset, verbose=0)
    with pytest.raises(
        ValueError, match=r"takes \['text', 'text_pair'\]. Received: also \['context'\]. Leave them out$"
    ):
        make("pair")[0].predict({**pairs, "context": TEXTS})
    told = build_pipeline(single.model, single.tokenizer, pair=True)
    assert len(told.predict({**pairs, "label": LABELS}, verbose=0)["label"]) == len(columns["text"])


@pytest.mark.slow  # LoRA: models/test_lora.py
@pytest.mark.parametrize("change", slow_but(("enable_lora",), ("quantize", "enable_lora")))
def test_it_predicts_with_the_layers_as_they_are(change):
    """Also where it has predicted before: Keras keeps the function that it traced then."""
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1), num_labels=2), scale=0.2)
    pipeline = kbert.build_pipeline(model, tiny_tokenizer())
    before = pipeline.predict(["the film"], verbose=0)["probabilities"]
    if change == "quantize":
        model.quantize("int8")
    else:
        model.enable_lora(2)
        for layer in filter(lambda layer: layer.lora_enabled, dense_layers(model)):
            layer.lora_kernel_b.assign(keras.ops.ones_like(layer.lora_kernel_b))
    after = pipeline.predict(["the film"], verbose=0)["probabilities"]
    np.testing.assert_allclose(after, pipeline(["the film"])["probabilities"], atol=1e-6)
    assert np.abs(after - before).max() > 1e-5


@pytest.mark.parametrize("given", [list, tf.data.Dataset])
def test_columns_become_tensors_once(given, monkeypatch, request):
    """In lists: by `predict` and not again in the model; in a dataset: where the graph of the prediction is made."""
    from kbert.pipelines import pipeline as module

    if given is list:
        request.getfixturevalue("eagerly")
    calls, original = [], module.string_columns
    monkeypatch.setattr(module, "string_columns", lambda *args: calls.append(args) or original(*args))
    pipeline = kbert.build_pipeline(kbert.BertClassifier(tiny_config(num_layers=1)), tiny_tokenizer())
    texts = ["good film", "bad", "never"]
    columns = texts if given is list else tf.data.Dataset.from_tensor_slices(texts).batch(3)
    calls.clear()
    answers = pipeline.predict(columns, verbose=0)
    assert len(calls) == 1 and answers["label"].shape == (3,)
    calls.clear()
    found = pipeline({"text": tf.constant(texts)})
    assert not calls
    np.testing.assert_allclose(found["probabilities"], answers["probabilities"], atol=1e-6)
