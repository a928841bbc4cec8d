"""BertConfig: sizes, validation, JSON."""

import dataclasses
import json

import numpy as np
import pytest
from helpers.wrong_values import wrong_inputs, wrong_values

from kbert.config import ACTIVATIONS, BertConfig


def test_the_defaults_are_bert_base():
    assert BertConfig() == BertConfig.from_size("base")
    assert (BertConfig().hidden_dropout, BertConfig().attention_dropout) == (0.1, 0.1)
    assert (BertConfig().layer_norm_epsilon, BertConfig().initializer_stddev) == (1e-12, 0.02)
    assert BertConfig().activation == "gelu_tanh" and not BertConfig().causal
    assert (BertConfig().position_embedding, BertConfig().pooled_token) == ("learned", "first")


@pytest.mark.parametrize(
    ("size", "layers", "hidden", "heads"),
    [
        ("tiny", 2, 128, 2),
        ("mini", 4, 256, 4),
        ("small", 4, 512, 8),
        ("medium", 8, 512, 8),
        ("base", 12, 768, 12),
        ("large", 24, 1024, 16),
    ],
)
def test_named_sizes(size, layers, hidden, heads):
    config = BertConfig.from_size(size)
    assert (config.num_layers, config.hidden_dim, config.num_heads) == (layers, hidden, heads)
    assert config.intermediate_dim == 4 * hidden and config.head_dim == 64
    assert (config.vocabulary_size, config.max_sequence_length, config.num_segments) == (30522, 512, 2)


def test_single_fields_of_a_size_can_be_replaced():
    config = BertConfig.from_size("tiny", vocabulary_size=100, hidden_dropout=0.0)
    assert config.vocabulary_size == 100 and config.hidden_dropout == 0.0 and config.hidden_dim == 128


def test_json_round_trip():
    config = BertConfig.from_size(
        "mini",
        causal=True,
        position_embedding="sinusoidal",
        pooled_token="last",
        activation="gelu_erf",
        layer_norm_epsilon=1e-5,
    )
    assert BertConfig.from_json(config.to_json()) == config
    assert json.loads(config.to_json())["activation"] == "gelu_erf"
    assert BertConfig.from_dict(config.to_dict()) == config
    assert hash(BertConfig.from_json(config.to_json())) == hash(config)


def test_numpy_numbers_are_numbers():
    numbers = {"num_layers": np.int64(3), "hidden_dropout": np.float32(0.5), "initializer_stddev": np.float32(0.25)}
    config = BertConfig(**numbers, causal=np.True_)
    assert config == BertConfig(num_layers=3, hidden_dropout=0.5, initializer_stddev=0.25, causal=True)
    assert BertConfig.from_json(config.to_json()) == config


def test_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        BertConfig().hidden_dim = 3


def test_unknown_fields_are_refused():
    with pytest.raises(ValueError, match=r"unknown fields \['hidden_size'\]"):
        BertConfig.from_dict({"hidden_size": 3})
    with pytest.raises(ValueError, match="unknown fields"):
        BertConfig.from_size("tiny", dropout=0.1)
    with pytest.raises(ValueError, match="one of .*tiny.* Received: 'huge'"):
        BertConfig.from_size("huge")


def test_a_value_that_no_bert_can_have_is_refused():
    wrong = (
        ("vocabulary_size", 0),
        ("num_layers", -1),
        ("hidden_dim", 12.0),
        ("num_heads", "3"),
        ("intermediate_dim", None),
        ("max_sequence_length", True),
        ("num_segments", 0),
        ("pad_token_id", -1),
        ("pad_token_id", 30522),
        ("activation", "gelu"),
        ("hidden_dropout", 1.0),
        ("attention_dropout", -0.1),
        ("layer_norm_epsilon", 0.0),
        ("initializer_stddev", float("nan")),
        ("causal", 1),
        ("position_embedding", "relative"),
        ("pooled_token", "mean"),
    )
    wrong_values(BertConfig, *((field, value, ".*Received: ") for field, value in wrong))
    sines = {"hidden_dim": 15, "num_heads": 3, "position_embedding": "sinusoidal"}
    wrong_values(
        BertConfig,
        ({"hidden_dim": 12, "num_heads": 5}, "`num_heads` must divide `hidden_dim`. .* num_heads=5, hidden_dim=12"),
        (sines, "`hidden_dim` must be even.*Received: hidden_dim=15"),
    )


def test_a_config_from_before_a_field_was_added_has_its_default():
    old = {
        name: value
        for name, value in BertConfig().to_dict().items()
        if name not in ("position_embedding", "pooled_token", "pad_token_id")
    }
    assert BertConfig.from_dict(old) == BertConfig()


def test_json_that_is_no_config_is_refused():
    texts = ("[]", "3", "{", '{"causal": "yes"}')
    wrong_inputs(BertConfig.from_json, *((text, "BertConfig") for text in texts))


def test_activations():
    for name in ACTIVATIONS:
        assert BertConfig(activation=name).activation == name
