"""Every public layer in models of the user's own: subclassed and, where it has one input, Sequential."""

import keras
import numpy as np
import pytest
from layers.test_layers import CASES, EVERY


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
