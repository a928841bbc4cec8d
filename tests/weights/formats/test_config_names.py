"""Configs of the other formats: both directions, and what each word means where."""

import pytest
from helpers.tiny_bert import tiny_config
from helpers.wrong_values import wrong_inputs

from kbert.config import ACTIVATIONS, BertConfig
from kbert.weights.formats.google import CONFIG_NAMES as GOOGLE
from kbert.weights.formats.huggingface import CONFIG_NAMES as HUGGINGFACE
from kbert.weights.formats.kerashub import CONFIG_NAMES as KERASHUB

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
    assert GOOGLE.to_kbert(GOOGLE_BASE, "it") == BertConfig()
    assert GOOGLE.from_kbert(BertConfig()) == GOOGLE_BASE


def test_the_same_word_means_two_functions():
    assert GOOGLE.to_kbert(GOOGLE_BASE, "it").activation == "gelu_tanh"
    assert HUGGINGFACE.to_kbert(GOOGLE_BASE, "it").activation == "gelu_erf"
    assert HUGGINGFACE.from_kbert(BertConfig())["hidden_act"] == "gelu_pytorch_tanh"
    assert HUGGINGFACE.from_kbert(BertConfig(activation="gelu_erf"))["hidden_act"] == "gelu"


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
    assert HUGGINGFACE.to_kbert(HUGGINGFACE.from_kbert(config), "it") == config


@pytest.mark.parametrize("activation", ["gelu_tanh", "relu", "tanh"])
def test_google_holds_these(activation):
    config = tiny_config(activation=activation, hidden_dropout=0.3, attention_dropout=0.2, initializer_stddev=0.1)
    assert GOOGLE.to_kbert(GOOGLE.from_kbert(config), "it") == config


def test_kerashub_holds_these():
    config = tiny_config(hidden_dropout=0.3, attention_dropout=0.3, num_segments=3)
    assert KERASHUB.to_kbert(KERASHUB.from_kbert(config), "it") == config


def test_what_a_format_cannot_hold_is_refused():
    def of_kbert(names):
        return lambda fields: names.from_kbert(tiny_config(**fields))

    wrong_inputs(
        of_kbert(GOOGLE),
        ({"activation": "gelu_erf"}, "='gelu_erf': it has no name for it, only for gelu_tanh .there: 'gelu'"),
        ({"activation": "silu"}, "activation='silu'"),
        ({"causal": True}, "causal=True"),
        owner=f'format="{GOOGLE.format}".*',
    )
    wrong_inputs(
        of_kbert(KERASHUB),
        ({"initializer_stddev": 0.05}, "initializer_stddev=0.05"),
        ({"attention_dropout": 0.0}, "one number `dropout` for .*hidden_dropout"),
        ({"activation": "relu"}, "activation='relu'"),
        owner=f'format="{KERASHUB.format}".*',
    )
