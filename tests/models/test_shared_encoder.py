"""One encoder, several uses: other outputs, two heads, layers frozen in one use and so in all."""

import keras
import numpy as np
import pytest
from helpers.batches import BATCH, LENGTH, config, labels_of, packed_batch, plain_batch
from helpers.compare import assert_arrays_equal, assert_tree_equal, to_numpy
from helpers.tiny_bert import randomise

import kbert
from kbert.models.trainability import trainability

pytestmark = pytest.mark.usefixtures("eagerly")  # traced steps of every model: test_models.py

TAGS, LABELS = labels_of((BATCH, LENGTH), 3), labels_of((BATCH,), 2)


def numbers(outputs):
    return keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)


def two_heads():
    """A classifier and a tagger on one encoder, and both as one model."""
    encoder = kbert.BertEncoder(config())
    classifier, tagger = kbert.BertClassifier(encoder), kbert.BertTagger(encoder, num_labels=3)
    outputs = {"class": classifier(encoder.input)["logits"], "tags": tagger(encoder.input)["logits"]}
    return classifier, tagger, keras.Model(encoder.input, outputs)


@pytest.mark.parametrize("num_parts", [None, 3])
def test_with_outputs_shares_the_weights(num_parts):
    encoder = kbert.BertEncoder(config(), num_parts=num_parts)
    batch = plain_batch() if num_parts is None else packed_batch()
    other = encoder.with_outputs("hidden_states", "attention_probs", "sequence_output")
    assert list(other.output) == ["hidden_states", "attention_probs", "sequence_output"]
    assert {id(v) for v in other.weights} == {id(v) for v in encoder.weights}
    np.testing.assert_array_equal(other(batch)["sequence_output"], encoder(batch)["sequence_output"])
    encoder.blocks[0].feed_forward.intermediate.kernel.assign_add(np.full((12, 20), 0.1, "float32"))
    outputs = other(batch)
    np.testing.assert_array_equal(outputs["sequence_output"], encoder(batch)["sequence_output"])
    np.testing.assert_array_equal(outputs["hidden_states"][-1], outputs["sequence_output"])
    assert [x.shape for x in outputs["attention_probs"]] == [(BATCH, 3, LENGTH, LENGTH)] * 2
    assert list(encoder.with_outputs(["hidden_states"]).output) == ["hidden_states"]  # as `outputs` of BertEncoder
    again = kbert.BertEncoder.from_config(other.get_config())
    assert again.output_keys == other.output_keys and again.weights[0] is not other.weights[0]


@pytest.mark.parametrize("lora_rank", [None, 2])
def test_with_outputs_is_saved_as_the_encoder_is(tmp_path, lora_rank):
    encoder = randomise(kbert.BertEncoder(config()))
    if lora_rank:
        encoder.enable_lora(lora_rank)
        randomise(encoder)
    view = encoder.with_outputs("sequence_output", "pooled_output", "attention_probs")
    expected = to_numpy(view(plain_batch()))
    assert [v.path for v in view.weights] == [v.path for v in encoder.weights]
    functional = keras.Model(view.input, view(view.input))
    for model in (view, functional, kbert.BertTagger(view, num_labels=3)):
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        outputs = getattr(loaded, "encoder", loaded)(plain_batch())
        assert_tree_equal(to_numpy(outputs), expected)
        assert len(loaded.trainable_variables) == len(model.trainable_variables)
    encoder.save_weights(tmp_path / "encoder.weights.h5")
    for layer in view.layers:
        layer.set_weights([0 * values for values in layer.get_weights()])
    view.load_weights(tmp_path / "encoder.weights.h5")
    np.testing.assert_array_equal(view(plain_batch())["sequence_output"], expected["sequence_output"])


def test_what_with_outputs_refuses():
    encoder = kbert.BertEncoder(config(num_layers=1), pooler=False)
    with pytest.raises(ValueError, match=r"`pooled_output` needs the pooler. Received"):
        encoder.with_outputs("sequence_output", "pooled_output")
    with pytest.raises(ValueError, match="`outputs` must be some of"):
        encoder.with_outputs("nonsense")


def test_two_heads_learn_together_and_survive_saving(tmp_path):
    classifier, tagger, both = two_heads()
    expected = numbers(both(plain_batch()))
    np.testing.assert_array_equal(classifier(plain_batch())["logits"], expected["class"])
    np.testing.assert_array_equal(tagger(plain_batch())["logits"], expected["tags"])
    assert len(both.weights) == len(classifier.encoder.weights) + 4
    tagger.compile("adam")
    tagger.fit(plain_batch(), TAGS, verbose=0)
    assert np.any(numbers(classifier(plain_batch())["logits"]) != expected["class"])  # by way of the encoder
    classifier.encoder.trainable = False
    classifier.encoder.blocks[1].trainable = True
    both.save(tmp_path / "both.keras")
    loaded = keras.models.load_model(tmp_path / "both.keras")
    np.testing.assert_array_equal(loaded(plain_batch())["tags"], both(plain_batch())["tags"])
    assert len(loaded.weights) == len(both.weights)  # one encoder still
    assert len(loaded.trainable_variables) == len(both.trainable_variables) == 16 + 4
    losses = {"class": kbert.optim.ClassificationLoss(), "tags": kbert.optim.ClassificationLoss()}
    loaded.compile("adam", losses)
    before = numbers(loaded.trainable_variables), numbers(loaded.non_trainable_variables)
    loaded.fit(plain_batch(), {"class": LABELS, "tags": TAGS}, verbose=0)
    assert all(np.any(a != b) for a, b in zip(before[0], numbers(loaded.trainable_variables), strict=True))
    assert_arrays_equal(before[1], numbers(loaded.non_trainable_variables))


def test_freezing_in_one_use_is_freezing_in_all(tmp_path):
    classifier, tagger, _ = two_heads()
    classifier.encoder.embeddings.trainable = False
    steps = [["embeddings", False]]
    assert trainability(classifier) == trainability(tagger) == trainability(tagger.encoder) == steps
    tagger.save(tmp_path / "tagger.keras")
    loaded = keras.models.load_model(tmp_path / "tagger.keras")
    assert trainability(loaded) == steps
    loaded.encoder.trainable = True
    assert len(loaded.trainable_variables) == len(loaded.weights)
