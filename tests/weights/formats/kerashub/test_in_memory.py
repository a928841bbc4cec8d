"""Models of KerasHub in memory: to kbert's and back, with equal weights, outputs and tokenizers."""

import importlib.util

import keras
import numpy as np
import pytest
from helpers.stored_models import make_model
from helpers.tiny_bert import VOCABULARY, randomise, tiny_tokenizer

import kbert
from kbert.weights import from_keras_hub, to_keras_hub

pytestmark = pytest.mark.skipif(importlib.util.find_spec("keras_hub") is None, reason="needs KerasHub")

SIZES = dict(num_layers=2, num_heads=3, hidden_dim=12, intermediate_dim=20, dropout=0.2, max_sequence_length=19)


@pytest.fixture(scope="module")
def hub():
    import keras_hub

    return keras_hub.models


@pytest.fixture(scope="module")
def backbone(hub):
    return randomise(hub.BertBackbone(vocabulary_size=len(VOCABULARY), num_segments=2, **SIZES), scale=0.3)


@pytest.fixture(scope="module")
def tokenizer(hub):
    return hub.BertTokenizer(vocabulary=VOCABULARY, lowercase=True, strip_accents=True)


def batch():
    rng = np.random.default_rng(2)
    return {
        "token_ids": rng.integers(0, len(VOCABULARY), (3, 7)).astype("int32"),
        "segment_ids": rng.integers(0, 2, (3, 7)).astype("int32"),
        "padding_mask": np.arange(7) < np.array([[7], [4], [5]]),
    }


def assert_close(ours, theirs):
    np.testing.assert_allclose(keras.ops.convert_to_numpy(ours), keras.ops.convert_to_numpy(theirs), rtol=0, atol=1e-5)


def assert_equal_weights(some, others):
    others = {variable.path: variable for variable in others.weights}
    assert len(others) == len(some.weights)
    for variable in some.weights:
        np.testing.assert_array_equal(variable.numpy(), others[variable.path].numpy(), err_msg=variable.path)


def test_a_backbone_and_back(backbone, tokenizer):
    encoder = from_keras_hub(backbone, tokenizer)
    assert isinstance(encoder, kbert.BertEncoder) and encoder.config.hidden_dropout == 0.2
    assert encoder.pretrained.tokenizer.vocabulary == VOCABULARY
    assert encoder.pretrained.tokenizer.settings()["strip_accents"] is True
    fed, real = batch(), batch()["padding_mask"]
    ours, theirs = encoder(fed, training=False), backbone(fed)
    assert_close(ours["sequence_output"][real], theirs["sequence_output"][real])
    assert_close(ours["pooled_output"], theirs["pooled_output"])
    again, their_tokenizer = to_keras_hub(encoder)
    assert_equal_weights(again, backbone)
    texts = ["he saw a film.", "Über x"]
    assert their_tokenizer(texts) == tokenizer(texts)
    before = backbone.get_weights()[0].copy()
    encoder.weights[0].assign(encoder.weights[0] + 1.0)  # the values are copies
    np.testing.assert_array_equal(backbone.get_weights()[0], before)


def test_without_a_tokenizer(backbone):
    encoder = from_keras_hub(backbone)
    assert encoder.pretrained.tokenizer is None
    again, their_tokenizer = to_keras_hub(encoder)
    assert their_tokenizer is None
    assert_equal_weights(again, backbone)


def test_a_masked_lm_and_back(hub, backbone, tokenizer):
    preprocessor = hub.BertMaskedLMPreprocessor(tokenizer, sequence_length=11)
    theirs = randomise(hub.BertMaskedLM(backbone, preprocessor), scale=0.3)
    model = from_keras_hub(theirs)
    assert model.task == "masked_lm" and model.pretrained.settings.sequence_length == 11
    fed = batch() | {"mask_positions": np.array([[1, 2], [3, 0], [2, 2]], "int32")}
    assert_close(model(fed, training=False)["mlm_logits"], theirs(fed))
    again, _ = to_keras_hub(model)
    assert_equal_weights(again, theirs)
    assert again.preprocessor.sequence_length == 11
    assert from_keras_hub(theirs, task="encoder").task == "encoder"


def test_a_classifier_and_back(hub, backbone, tokenizer):
    preprocessor = hub.BertTextClassifierPreprocessor(tokenizer, sequence_length=9)
    theirs = randomise(hub.BertTextClassifier(backbone, 3, preprocessor, dropout=0.3), scale=0.3)
    model = from_keras_hub(theirs, labels=["a", "b", "c"])
    assert model.task == "classification" and model.dropout == 0.3
    assert_close(model(batch(), training=False)["logits"], theirs(batch()))
    pipeline = kbert.build_pipeline(model)
    assert set(pipeline.predict(["he saw"])["label"]) <= {"a", "b", "c"}
    again, _ = to_keras_hub(pipeline)
    assert_equal_weights(again, theirs)


def test_a_preset_by_its_path_or_name(hub, backbone, tokenizer, tmp_path):
    backbone.save_to_preset(str(tmp_path / "preset"))
    tokenizer.save_to_preset(str(tmp_path / "preset"))
    encoder = from_keras_hub(tmp_path / "preset")
    assert encoder.pretrained.tokenizer.vocabulary == VOCABULARY
    assert_equal_weights(to_keras_hub(encoder)[0], backbone)
    with pytest.raises(FileNotFoundError, match="'no_such_preset' .*Without a network"):
        from_keras_hub("no_such_preset")


def test_what_has_no_counterpart_is_refused(hub):
    with pytest.raises(TypeError, match="BertBackbone.* Received: Sequential"):
        from_keras_hub(keras.Sequential())
    with pytest.raises(ValueError, match="cannot hold a span head"):
        to_keras_hub(make_model("span with pooler"), tokenizer=tiny_tokenizer())
