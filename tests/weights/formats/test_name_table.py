"""The tables of names: whole, one to one, and the same in both directions."""

import pytest
from helpers.stored_models import MODELS, make_model
from helpers.tiny_bert import tiny_config

import kbert
from kbert.weights.formats.google import NAMES as GOOGLE
from kbert.weights.formats.huggingface import NAMES as HUGGINGFACE
from kbert.weights.formats.kbert import NAMES as KBERT
from kbert.weights.formats.kerashub import NAMES as KERASHUB
from kbert.weights.formats.name_table import NameTable, encoder_variables, parameters_of, sizes_of

OTHERS = pytest.mark.parametrize("names", [GOOGLE, HUGGINGFACE, KERASHUB], ids=lambda names: names.format)


@pytest.mark.parametrize("name", MODELS)
def test_every_variable_of_every_model_is_known(name):
    model = make_model(name)
    sizes = sizes_of(model.config, model.num_labels)
    for variable in model.weights:
        tensor = KBERT.find(variable.path)
        assert (tensor.name, tensor.shape(sizes)) == (variable.path, tuple(variable.shape))


@pytest.mark.parametrize("pooler", [True, False])
def test_the_encoders_variables_are_known_without_building_it(pooler):
    config = tiny_config(num_layers=3)
    encoder = kbert.BertEncoder(config, pooler=pooler)
    assert sorted(encoder_variables(config, pooler)) == sorted(variable.path for variable in encoder.weights)
    assert not pooler or parameters_of(config) == encoder.count_params()


def test_an_unknown_variable():
    assert KBERT.find("encoder_block_3/attention/query/scale") is None
    with pytest.raises(ValueError, match=r"toy: expected paths.*Received: \['pooler/scale'\]"):
        NameTable("toy", {"pooler/scale": "x"})


@OTHERS
def test_no_two_variables_of_a_model_share_a_name(names):
    found = [names.find(path).name for path in encoder_variables(tiny_config(num_layers=12))]
    assert len(set(found)) == len(found)
    assert sum("11" in name for name in found) == 16  # layer 11 is not layer 1
