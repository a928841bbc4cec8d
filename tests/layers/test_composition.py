"""Every public layer in models of the user's own: subclassed and, where it has one input, Sequential."""

import keras
import numpy as np
import pytest
from layers.test_layers import CASES, EVERY, IDS, X

import kbert


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """Any layer behind a layer of its own, or in front of one where it takes ids."""

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.layer = layer
        self.head = keras.layers.Dense(2)

    def call(self, inputs, training=None):
        keywords = {"training": training} if self.layer._call_has_training_arg else {}
        return self.head(keras.ops.cast(self.layer(*inputs, **keywords), "float32"))

    def get_config(self):
        return {"layer": keras.saving.serialize_keras_object(self.layer)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["layer"]))


def is_alike(model, loaded, inputs):
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(one(inputs)) for one in (model, loaded)))


@pytest.mark.parametrize("case", EVERY)
def test_subclassed(case, tmp_path):
    layer_class, arguments, inputs, paths = CASES[case]
    inputs = [keras.ops.convert_to_tensor(x) for x in inputs]
    model = Subclassed(layer_class(**arguments))
    targets = np.ones_like(keras.ops.convert_to_numpy(model(inputs)))
    model.compile(keras.optimizers.SGD(0.001), "mse", run_eagerly=True)
    before = [w.copy() for w in model.get_weights()]
    model.train_on_batch(inputs, targets)
    assert any(np.any(a != b) for a, b in zip(before, model.get_weights(), strict=True))
    assert len(model.layer.trainable_variables) == len(paths)
    model.save(tmp_path / "model.keras")
    is_alike(model, keras.models.load_model(tmp_path / "model.keras"), inputs)


@pytest.mark.parametrize("case", [case for case in EVERY if len(CASES[case.values[0]][2]) == 1])
def test_sequential(case, tmp_path):
    layer_class, arguments, (x,), _ = CASES[case]
    model = keras.Sequential([keras.Input(x.shape[1:], dtype=x.dtype.name), layer_class(**arguments)])
    model.save(tmp_path / "model.keras")
    is_alike(model, keras.models.load_model(tmp_path / "model.keras"), keras.ops.convert_to_tensor(x))


@pytest.mark.slow  # test_subclassed
def test_a_small_bert_in_sequence():
    """What has a second input can go without: no padding, one segment."""
    layers = kbert.layers
    model = keras.Sequential(
        [
            layers.EmbeddingBlock(vocabulary_size=37, hidden_dim=12, max_sequence_length=11, dropout=0.0),
            layers.EncoderBlock(num_heads=3, intermediate_dim=20, hidden_dropout=0.0, attention_dropout=0.0),
            layers.SelfAttention(num_heads=3, attention_dropout=0.0),
            layers.Pooler(),
            layers.TaskHead(5),
        ]
    )
    scores = model(IDS)
    assert scores.shape == (4, 5)
    block, bias = model.layers[1], np.zeros((4, 1, 1, 7), "float32")
    np.testing.assert_array_equal(block(X), block(X, bias))
    np.testing.assert_array_equal(model.layers[0](IDS), model.layers[0](IDS, np.zeros_like(IDS)))
    model.compile("adam", kbert.optim.ClassificationLoss(), run_eagerly=True)
    history = model.fit(IDS, IDS[:, 0] % 5, epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0]
