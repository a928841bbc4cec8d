"""Models quantised to int8: near the original's numbers, saved, loaded and exported with the same ones."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.keras_compat import all_layers
from kbert.models.quantized_layers import quantized_layers

ONE = tiny_config(num_layers=1)
MODELS = {
    "encoder": lambda: kbert.BertEncoder(ONE),
    "classification": lambda: kbert.BertClassifier(ONE, num_labels=3),
    "span": lambda: kbert.BertSpanExtractor(ONE),
    "pretraining, tied": lambda: kbert.BertPretrainer(ONE),
    "pretraining, untied": lambda: kbert.BertPretrainer(ONE, tied=False),
}
TOLERANCE = 0.03  # of the largest value: a step of int8 is 1/127 of a row's or a column's largest


def batch(model, length=9):
    ids = np.arange(2 * length).reshape(2, length) % 25
    inputs = {"token_ids": ids, "segment_ids": ids % 2, "padding_mask": ids >= 0}
    return inputs | ({"mask_positions": ids[:, :3] % length} if "mask_positions" in model.input else {})


def outputs(model):
    return {name: np.asarray(values) for name, values in model(batch(model)).items()}


@pytest.fixture(scope="module", params=slow_but(("classification", "pretraining, tied", "pretraining, untied"), MODELS))
def pair(request):
    """A model's outputs, and the model quantised, to be left alone."""
    model = randomise(MODELS[request.param](), scale=0.2)
    expected = outputs(model)
    model.quantize("int8")
    return expected, model


def test_the_numbers_are_near_the_originals(pair):
    expected, model = pair
    for name, values in outputs(model).items():
        assert np.abs(values - expected[name]).max() < TOLERANCE * np.abs(expected[name]).max(), name


def test_positions_are_read_as_numbers_not_as_codes():
    model = randomise(MODELS["encoder"](), scale=0.2)
    table = model.embeddings.position_embedding.embeddings.numpy()
    model.quantize("int8")
    positions = model.embeddings._first_positions(tf.zeros((1, 7), "int32"))
    np.testing.assert_allclose(positions, table[:7], atol=np.abs(table).max() / 127)
    ids = np.array([[1, 2, 3]])
    inputs = ids, ids % 2
    np.testing.assert_array_equal(model.embeddings(*inputs), model.embeddings(*inputs, np.array([[0, 1, 2]])))


@pytest.mark.parametrize("name", slow_but(("classification",), ("encoder", "classification")))
def test_export(name, tmp_path):
    model = randomise(MODELS[name](), scale=0.2)
    model.quantize("int8")
    model.export(tmp_path / "it", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "it")
    served = loaded.serve({key: tf.constant(values, model.input[key].dtype) for key, values in batch(model).items()})
    for key, values in outputs(model).items():
        np.testing.assert_allclose(served[key], values, atol=1e-5)


def test_some_of_the_layers(tmp_path):
    model = randomise(MODELS["classification"](), scale=0.2)
    model.quantize("int8", filters=lambda layer: "feed_forward" in (layer.path or ""))
    assert quantized_layers(model) and all("feed_forward" in path for path in quantized_layers(model))
    model.save(tmp_path / "it.keras")
    loaded = keras.models.load_model(tmp_path / "it.keras")
    np.testing.assert_array_equal(outputs(loaded)["logits"], outputs(model)["logits"])


def test_other_modes_are_refused_before_anything_changes():
    model = MODELS["classification"]()
    before = [variable.path for variable in model.variables]
    for mode in ("int4", "float8", "gptq", None):
        with pytest.raises(ValueError, match='mode="int8" alone|GPTQConfig|either `mode`'):
            model.quantize(mode)
        assert [variable.path for variable in model.variables] == before


def test_it_computes_in_bfloat16(tmp_path):
    """Inside the embedding block, Keras' quantised tables gave float32 under this policy, and the sum failed."""
    model = randomise(MODELS["classification"](), scale=0.2)
    model.quantize("int8")
    kbert.save_pretrained(model, tmp_path / "it", tokenizer=tiny_tokenizer())
    loaded = kbert.load_pretrained(tmp_path / "it", dtype="mixed_bfloat16")
    expected = outputs(model)["logits"]
    assert np.abs(outputs(loaded)["logits"] - expected).max() < TOLERANCE * np.abs(expected).max()
    ids, block = np.array([[1, 2, 3]]), loaded.encoder.embeddings
    inputs = ids, ids % 2
    np.testing.assert_array_equal(block(*inputs), block(*inputs, np.array([[0, 1, 2]])))


def test_what_a_quantised_model_cannot(tmp_path):
    model = MODELS["classification"]()
    model.quantize("int8")
    kbert.save_pretrained(model, tmp_path / "it", tokenizer=tiny_tokenizer())
    for overrides in ({"task": "tagging", "num_labels": 3}, {"num_labels": 2}):
        with pytest.raises(ValueError, match="is quantised: it can only be loaded as it is"):
            kbert.load_pretrained(tmp_path / "it", **overrides)
    with pytest.raises(ValueError, match='format="google" cannot hold a quantised model'):
        kbert.save_pretrained(model, tmp_path / "other", format="google", tokenizer=tiny_tokenizer())


def test_it_cannot_be_trained(tmp_path):
    model = MODELS["classification"]()
    model.compile(run_eagerly=True)
    labels = {"logits": np.array([0, 2])}
    model.fit(batch(model), labels, verbose=0)
    model.encoder.quantize("int8")  # of the model, Keras would forget the compiled step by itself
    before, refused = model.get_weights(), "training needs float weights. Received: a quantised model"
    for train in (model.fit, model.train_on_batch):
        with pytest.raises(ValueError, match=refused):
            train(batch(model), labels)
    model.evaluate(batch(model), labels, verbose=0)
    rows, task, output = [("good", "a"), ("bad", "b")], kbert.tasks.Classification(), tmp_path / "run"
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["a", "b", "c"])
    with pytest.raises(ValueError, match=refused):
        pipeline.fit(["good"], ["a"])
    with pytest.raises(ValueError, match=refused):  # a new head on its encoder
        kbert.finetune(pipeline, task, rows, output=output)
    np.testing.assert_equal(model.get_weights(), before)
    pretrainer = MODELS["pretraining, tied"]()
    pretrainer.quantize("int8")
    (tmp_path / "corpus.txt").write_text("good film\nbad film\n\nnever\n")
    with pytest.raises(ValueError, match=refused):
        options = {"vocabulary": tiny_tokenizer(), "sequence_length": 16, "packed": False, "held_out": 0.4}
        kbert.pretrain(tmp_path / "corpus.txt", init=pretrainer, steps=1, output=output, **options)
    assert not output.exists()


def test_few_collections_are_made_nothing_is_frozen_and_the_original_kernels_are_freed(monkeypatch):
    """Where a program has frozen objects, as this one has (conftest), they stay so and the model does not join them."""
    made, collect, frozen = [], gc.collect, gc.get_freeze_count()
    model = MODELS["classification"]()
    kernels = [weakref.ref(layer._kernel) for layer in all_layers(model) if hasattr(layer, "_kernel")]
    gc.disable()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(gc, "collect", lambda *generation: made.append(generation))
            model.quantize("int8")
        assert len(made) == 2  # of Keras' two embeddings; none of the dense layers, which may be hundreds
        assert len(kernels) == 8 and not any(kernel() is not None for kernel in kernels)
    finally:
        gc.enable()
    assert 0 < gc.get_freeze_count() <= frozen
    watched = weakref.ref(model)
    del model
    collect()
    assert watched() is None
