"""Configs of the other families: both directions, and what each word means where."""

import pytest
from helpers.tiny_bert import tiny_config

from kbert.config import ACTIVATIONS, BertConfig
from kbert.weights.formats.config_names import config_for, config_from

GOOGLE_BASE = {  # uncased_L-12_H-768_A-12/bert_config.json
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
    "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 512, "num_attention_heads": 12,
    "num_hidden_layers": 12, "type_vocab_size": 2, "vocab_size": 30522,
}  # fmt: skip


def test_googles_base_is_kberts_default():
    assert config_from("google", GOOGLE_BASE, "it") == BertConfig()
    assert config_for("google", BertConfig()) == GOOGLE_BASE


def test_the_multilingual_releases_say_more():
    """Entries that Google's code does not read either."""
    more = {
        "directionality": "bidi",
        "pooler_fc_size": 768,
        "pooler_type": "first_token_transform",
        "vocab_size": 119547,
    }
    assert config_from("google", {**GOOGLE_BASE, **more}, "it") == BertConfig(vocabulary_size=119547)


def test_the_same_word_means_two_functions():
    assert config_from("google", GOOGLE_BASE, "it").activation == "gelu_tanh"
    assert config_from("huggingface", GOOGLE_BASE, "it").activation == "gelu_erf"
    assert config_for("huggingface", BertConfig())["hidden_act"] == "gelu_pytorch_tanh"
    assert config_for("huggingface", BertConfig(activation="gelu_erf"))["hidden_act"] == "gelu"


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_hugging_face_holds_every_config(activation):
    config = tiny_config(
        activation=activation, hidden_dropout=0.3, attention_dropout=0.2, layer_norm_epsilon=1e-5, causal=True,
        initializer_stddev=0.1, num_segments=7,
    )  # fmt: skip
    assert config_from("huggingface", config_for("huggingface", config), "it") == config


@pytest.mark.parametrize("activation", ["gelu_tanh", "relu", "tanh"])
def test_google_holds_these(activation):
    config = tiny_config(activation=activation, hidden_dropout=0.3, attention_dropout=0.2, initializer_stddev=0.1)
    assert config_from("google", config_for("google", config), "it") == config


def test_kerashub_holds_these():
    config = tiny_config(hidden_dropout=0.3, attention_dropout=0.3, num_segments=3)
    assert config_from("kerashub", config_for("kerashub", config), "it") == config


@pytest.mark.parametrize(
    "family,fields,message",
    [
        ("google", {"activation": "gelu_erf"}, "there is no name for the erf form"),
        ("google", {"activation": "silu"}, "activation='silu'"),
        ("google", {"causal": True}, "causal=True"),
        ("kerashub", {"initializer_stddev": 0.05}, "initializer_stddev=0.05"),
        ("kerashub", {"attention_dropout": 0.0}, "one dropout rate"),
        ("kerashub", {"activation": "relu"}, "activation='relu'"),
    ],
)
def test_what_a_family_cannot_hold_is_refused(family, fields, message):
    with pytest.raises(ValueError, match=f'format="{family}".*{message}'):
        config_for(family, tiny_config(**fields))


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"hidden_act": "mish"}, "it: hidden_act='mish'"),
        ({"hidden_size": 770}, "it: `num_attention_heads` must divide"),
        ({"hidden_dropout_prob": 1.5}, "it: .*hidden_dropout"),
        ({"vocab_size": None, "num_hidden_layers": None}, "it does not say vocab_size, num_hidden_layers"),
    ],
)
def test_what_kbert_cannot_represent_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        config_from("huggingface", {**GOOGLE_BASE, **changes}, "it")
