"""Scores are float32 whatever the dtype policy, and wherever it comes from."""

import keras
import pytest
from helpers.batches import choice_batch, config, packed_batch, plain_batch, pretraining_batch
from helpers.slow_but import slow_but

from kbert.keras_compat import all_layers
from kbert.models.average import average_models
from kbert.models.classifier import BertClassifier
from kbert.models.encoder import BertEncoder
from kbert.models.multiple_choice import BertMultipleChoice
from kbert.models.pretrainer import BertPretrainer
from kbert.models.regressor import BertRegressor
from kbert.models.span_extractor import BertSpanExtractor
from kbert.models.tagger import BertTagger

MODELS = {
    "classifier": (BertClassifier, {}, plain_batch),
    "regressor": (BertRegressor, {}, plain_batch),
    "span_extractor": (BertSpanExtractor, {}, plain_batch),
    "tagger": (BertTagger, {"num_labels": 3}, plain_batch),
    "multiple_choice": (BertMultipleChoice, {}, choice_batch),
    "pretrainer": (BertPretrainer, {}, pretraining_batch),
    "untied": (BertPretrainer, {"tied": False, "next_sentence": False}, pretraining_batch),
    "packed": (BertPretrainer, {"num_parts": 3}, lambda: packed_batch() | pretraining_batch() | packed_batch()),
}
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16", "bfloat16")
QUICK = ("mixed_bfloat16", "bfloat16")


@pytest.fixture(params=slow_but(QUICK, POLICIES))
def policy(request):
    """The name of a policy; the global one is as before at the end."""
    before = keras.config.dtype_policy()
    yield request.param
    keras.config.set_dtype_policy(before)


def types(outputs):
    return {keras.backend.standardize_dtype(x.dtype) for x in keras.tree.flatten(outputs)}


def policies(model):
    """The dtype policies of a model and of every layer in it."""
    layers = [layer for layer in all_layers(model) if not isinstance(layer, keras.layers.InputLayer)]
    return {layer.dtype_policy.name for layer in layers}


# The others end in a layer of the same class as one of these.
HEADS = ("classifier", "span_extractor", "multiple_choice", "pretrainer")


@pytest.mark.parametrize("name", slow_but(HEADS, MODELS))
def test_scores_are_float32(name, policy):
    make, arguments, batch = MODELS[name]
    passed = make(config(num_layers=1), dtype=policy, **arguments)
    assert types(passed(batch())) == types(passed.output) == {"float32"}
    if name in ("classifier", "multiple_choice"):
        ensemble = average_models([passed, make(config(num_layers=1), dtype=policy, **arguments)])
        assert types(ensemble(batch())) == types(ensemble.output) == {"float32"}
    assert policies(passed) == {policy}
    keras.config.set_dtype_policy(policy)
    from_global = make(config(num_layers=1), **arguments)
    assert policies(from_global) == {policy}
    assert types(from_global(batch())) == types(from_global.output) == {"float32"}
    assert policies(make(config(num_layers=1), dtype="float32", **arguments)) == {"float32"}  # the one passed wins


def test_hidden_states_have_the_compute_type_and_attention_float32(policy):
    expected = {"float32": "float32", "mixed_float16": "float16"}.get(policy, "bfloat16")
    outputs = ("sequence_output", "pooled_output", "hidden_states", "attention_probs")
    passed = BertEncoder(config(num_layers=1), outputs=outputs, dtype=policy)
    keras.config.set_dtype_policy(policy)
    for model in (passed, BertEncoder(config(num_layers=1), outputs=outputs)):
        for found in (model(plain_batch()), model.output):
            assert types(found["attention_probs"]) == {"float32"}
            assert types({name: found[name] for name in outputs[:3]}) == {expected}
