"""The table of names: whole, one to one, and the same in both directions."""

import numpy as np
import pytest
from helpers.stored_models import MODELS, make_model
from helpers.tiny_bert import tiny_config

import kbert
from kbert.weights.formats.export_checkpoint import outgoing
from kbert.weights.formats.name_table import FAMILIES, encoder_variables, row_of, sizes_of


@pytest.mark.parametrize("name", MODELS)
def test_every_variable_of_every_model_has_a_row(name):
    model = make_model(name)
    sizes = sizes_of(model.config, getattr(model, "num_labels", None))
    for variable in model.weights:
        row = row_of(variable.path)
        assert row.variable == variable.path and row.shape(sizes) == tuple(variable.shape)


@pytest.mark.parametrize("pooler", [True, False])
def test_the_encoders_variables_are_known_without_building_it(pooler):
    config = tiny_config(num_layers=3)
    encoder = kbert.BertEncoder(config, pooler=pooler)
    assert sorted(encoder_variables(config, pooler)) == sorted(variable.path for variable in encoder.weights)


def test_an_unknown_variable():
    with pytest.raises(KeyError):
        row_of("encoder_block_3/attention/query/scale")


@pytest.mark.parametrize("family", FAMILIES)
def test_no_two_variables_of_a_model_share_a_place(family):
    names = [row_of(path).places[family].name for path in encoder_variables(tiny_config(num_layers=12))]
    assert len(set(names)) == len(names)
    assert sum("11" in name for name in names) == 16  # layer 11 is not layer 1


@pytest.mark.parametrize("family", FAMILIES)
def test_both_directions_are_inverse(family):
    model = make_model("classification")
    sizes = sizes_of(model.config, 3)
    there = outgoing(family, model)
    for variable in model.weights:
        place = row_of(variable.path).places[family]
        shape, values = there[place.name]
        assert values().shape == shape == place.shape(sizes)
        np.testing.assert_array_equal(place.to_kbert(values(), variable.shape), variable.numpy())


def test_what_the_families_call_things():
    """A few names written out, as their own code and files have them."""
    query = row_of("encoder_block_3/attention/query/kernel").places
    assert query["google"].name == "bert/encoder/layer_3/attention/self/query/kernel"
    assert query["huggingface"].name == "bert.encoder.layer.3.attention.self.query.weight"
    assert query["kerashub"].name == "transformer_layer_3/self_attention_layer/query/kernel"
    assert [place.transposed for place in query.values()] == [False, True, False]
    sizes = sizes_of(tiny_config())
    assert [place.shape(sizes) for place in query.values()] == [(12, 12), (12, 12), (12, 3, 4)]
    norm = row_of("encoder_block_0/feed_forward_layer_norm/gamma").places
    assert norm["google"].name == "bert/encoder/layer_0/output/LayerNorm/gamma"
    assert norm["huggingface"].name == "bert.encoder.layer.0.output.LayerNorm.weight"
    assert row_of("next_sentence_head/dense/kernel").places["google"].shape(sizes) == (2, 12)
