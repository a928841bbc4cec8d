"""The tables of names: whole, one to one, and the same in both directions."""

import numpy as np
import pytest
from helpers.stored_models import MODELS, make_model
from helpers.tiny_bert import tiny_config

import kbert
from kbert.weights.formats.export_tensors import export_tensors
from kbert.weights.formats.google.names import NAMES as GOOGLE
from kbert.weights.formats.huggingface.names import NAMES as HUGGINGFACE
from kbert.weights.formats.kbert.names import NAMES as KBERT
from kbert.weights.formats.kerashub.names import NAMES as KERASHUB
from kbert.weights.formats.name_table import NameTable
from kbert.weights.formats.variables import encoder_variables, sizes_of, variable_shape

OTHERS = pytest.mark.parametrize("names", [GOOGLE, HUGGINGFACE, KERASHUB], ids=lambda names: names.format)


@pytest.mark.parametrize("name", MODELS)
def test_every_variable_of_every_model_is_known(name):
    model = make_model(name)
    sizes = sizes_of(model.config, getattr(model, "num_labels", None))
    for variable in model.weights:
        assert variable_shape(variable.path, sizes) == tuple(variable.shape)
        assert KBERT.find(variable.path).name == variable.path


@pytest.mark.parametrize("pooler", [True, False])
def test_the_encoders_variables_are_known_without_building_it(pooler):
    config = tiny_config(num_layers=3)
    encoder = kbert.BertEncoder(config, pooler=pooler)
    assert sorted(encoder_variables(config, pooler)) == sorted(variable.path for variable in encoder.weights)


def test_an_unknown_variable():
    with pytest.raises(KeyError):
        variable_shape("encoder_block_3/attention/query/scale", sizes_of(tiny_config()))
    with pytest.raises(ValueError, match=r"toy: expected paths.*Received: \['pooler/scale'\]"):
        NameTable("toy", {"pooler/scale": "x"})


@OTHERS
def test_no_two_variables_of_a_model_share_a_name(names):
    found = [names.find(path).name for path in encoder_variables(tiny_config(num_layers=12))]
    assert len(set(found)) == len(found)
    assert sum("11" in name for name in found) == 16  # layer 11 is not layer 1


@OTHERS
def test_both_directions_are_inverse(names):
    model = make_model("classification")
    sizes = sizes_of(model.config, 3)
    there = export_tensors(names, model)
    for variable in model.weights:
        tensor = names.find(variable.path)
        shape, values = there[tensor.name]
        assert values().shape == shape == tensor.shape(sizes)
        np.testing.assert_array_equal(tensor.to_kbert(values(), variable.shape), variable.numpy())


def test_what_the_formats_call_things():
    """A few names written out, as their own code and files have them."""
    query = [names.find("encoder_block_3/attention/query/kernel") for names in (GOOGLE, HUGGINGFACE, KERASHUB)]
    assert [tensor.name for tensor in query] == [
        "bert/encoder/layer_3/attention/self/query/kernel",
        "bert.encoder.layer.3.attention.self.query.weight",
        "transformer_layer_3/self_attention_layer/query/kernel",
    ]
    assert [tensor.transposed for tensor in query] == [False, True, False]
    sizes = sizes_of(tiny_config())
    assert [tensor.shape(sizes) for tensor in query] == [(12, 12), (12, 12), (12, 3, 4)]
    norm = "encoder_block_0/feed_forward_layer_norm/gamma"
    assert GOOGLE.find(norm).name == "bert/encoder/layer_0/output/LayerNorm/gamma"
    assert HUGGINGFACE.find(norm).name == "bert.encoder.layer.0.output.LayerNorm.weight"
    assert GOOGLE.find("next_sentence_head/dense/kernel").shape(sizes) == (2, 12)
