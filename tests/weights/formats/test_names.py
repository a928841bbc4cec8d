"""The names of config fields and variables in every format: both directions, and what each word means where."""

import pytest
from helpers.stored_models import MODELS, make_model
from helpers.tiny_bert import tiny_config
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.config import ACTIVATIONS, BertConfig
from kbert.weights import keras_hub_bridge
from kbert.weights.formats import google, huggingface
from kbert.weights.formats.name_table import OWN_NAMES, encoder_variables, head_variables

GOOGLE_BASE = {  # uncased_L-12_H-768_A-12/bert_config.json
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}


def test_googles_base_is_kberts_default():
    assert google.CONFIG_NAMES.to_kbert(GOOGLE_BASE, "it") == BertConfig()
    assert google.CONFIG_NAMES.from_kbert(BertConfig()) == GOOGLE_BASE | {"pad_token_id": 0}


def test_the_same_word_means_two_functions():
    assert google.CONFIG_NAMES.to_kbert(GOOGLE_BASE, "it").activation == "gelu_tanh"
    assert huggingface.CONFIG_NAMES.to_kbert(GOOGLE_BASE, "it").activation == "gelu_erf"
    assert huggingface.CONFIG_NAMES.from_kbert(BertConfig())["hidden_act"] == "gelu_pytorch_tanh"
    assert huggingface.CONFIG_NAMES.from_kbert(BertConfig(activation="gelu_erf"))["hidden_act"] == "gelu"


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_hugging_face_holds_every_config(activation):
    config = tiny_config(
        activation=activation,
        hidden_dropout=0.3,
        attention_dropout=0.2,
        layer_norm_epsilon=1e-5,
        causal=True,
        initializer_stddev=0.1,
        num_segments=7,
    )
    assert huggingface.CONFIG_NAMES.to_kbert(huggingface.CONFIG_NAMES.from_kbert(config), "it") == config


def test_kerashub_holds_these():
    config = tiny_config(hidden_dropout=0.3, attention_dropout=0.3, num_segments=3)
    assert keras_hub_bridge.CONFIG_NAMES.to_kbert(keras_hub_bridge.CONFIG_NAMES.from_kbert(config), "it") == config


def test_what_a_format_cannot_hold_is_refused():
    wrong_inputs(
        lambda fields: keras_hub_bridge.CONFIG_NAMES.from_kbert(tiny_config(**fields)),
        ({"attention_dropout": 0.0}, "one number `dropout` for .*hidden_dropout"),
        ({"activation": "relu"}, "activation='relu'"),
        owner=f'format="{keras_hub_bridge.CONFIG_NAMES.format}".*',
    )


# Variables.


@pytest.mark.parametrize("name", MODELS)
def test_every_variable_of_every_model_is_known(name):
    model = make_model(name)
    known = encoder_variables(model.config, model.encoder.pooler is not None) | head_variables(model.task)
    sizes = model.config.to_dict() | {"num_labels": model.num_labels}
    for variable in model.weights:
        assert OWN_NAMES.find(variable.path).name == variable.path
        assert tuple(sizes.get(size, size) for size in known[variable.path]) == tuple(variable.shape)


@pytest.mark.parametrize("pooler", [True, False])
def test_the_encoders_variables_are_known_without_building_it(pooler):
    config = tiny_config(num_layers=3)
    encoder = kbert.BertEncoder(config, pooler=pooler)
    assert sorted(encoder_variables(config, pooler)) == sorted(variable.path for variable in encoder.weights)


def test_an_unknown_variable():
    for names in (google.NAMES, huggingface.NAMES, keras_hub_bridge.NAMES):
        assert names.find("encoder_block_3/attention/query/scale") is None


@pytest.mark.parametrize(
    "names", [google.NAMES, huggingface.NAMES, keras_hub_bridge.NAMES], ids=lambda names: names.format
)
def test_no_two_variables_of_a_model_share_a_name(names):
    found = [names.find(path).name for path in encoder_variables(tiny_config(num_layers=12))]
    assert len(set(found)) == len(found)
    assert sum("11" in name for name in found) == 16  # layer 11 is not layer 1
