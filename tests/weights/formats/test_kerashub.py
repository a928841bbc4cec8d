"""KerasHub's models, in memory and as presets: read, written, and what is odd in their files."""

import importlib.util
import json
import shutil
import sys

import keras
import numpy as np
import pytest
from helpers.hf_directory import edit
from helpers.paths import ROOT
from helpers.stored_models import assert_same_weights, load, make_model, save, weights
from helpers.tiny_bert import VOCABULARY, randomise, tiny_tokenizer

import kbert
from kbert.weights import from_keras_hub, to_keras_hub
from kbert.weights.files.h5_file import H5File
from kbert.weights.formats.kerashub import KerasHubVariables
from kbert.weights.source import open_checkpoint

pytestmark = pytest.mark.skipif(importlib.util.find_spec("keras_hub") is None, reason="needs KerasHub")

SIZES = dict(
    vocabulary_size=len(VOCABULARY),
    num_layers=2,
    num_heads=3,
    hidden_dim=12,
    intermediate_dim=20,
    dropout=0.2,
    max_sequence_length=19,
    num_segments=2,
)


@pytest.fixture(scope="module")
def hub():
    """KerasHub's models, imported by the tests alone: it takes seconds of every process that collects them."""
    import keras_hub

    return keras_hub.models


@pytest.fixture(scope="module")
def backbone(hub):
    return randomise(hub.BertBackbone(**SIZES), scale=0.3)


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


def both_ways(theirs, tmp_path, **overrides):
    """A model of KerasHub's, out of memory and out of a preset: equal, and equal to it when it is turned back."""
    theirs.save_to_preset(str(tmp_path / "preset"))
    model, stored = from_keras_hub(theirs, **overrides), load(tmp_path / "preset", **overrides)
    assert_same_weights(model, stored)
    assert type(model) is type(stored) and model.config == stored.config
    assert model.pretrained.settings == stored.pretrained.settings
    again, expected = to_keras_hub(model)[0], weights(theirs)
    assert len(again.weights) == len(expected)
    for path, value in weights(again).items():
        np.testing.assert_array_equal(value, expected[path], err_msg=path)
    return model


def test_the_name_of_a_preset_is_kerashubs(backbone, tokenizer, monkeypatch):
    asked = []
    for part in (backbone, tokenizer):
        give = lambda name, *_, part=part, **__: (asked.append(name), part)[1]  # noqa: E731
        monkeypatch.setattr(type(part), "from_preset", give)
    encoder = from_keras_hub("bert_tiny_en_uncased")
    assert set(asked) == {"bert_tiny_en_uncased"} and encoder.pretrained.tokenizer.vocabulary == VOCABULARY


def test_kberts_own_encoder_is_held():
    encoder = kbert.load_pretrained(ROOT / "saved_models/kbert-tiny", task="encoder")
    assert encoder.config.initializer_stddev != 0.02  # KerasHub's, of new weights only
    theirs, _ = to_keras_hub(encoder)
    assert_same_weights(from_keras_hub(theirs), encoder)
    ids = np.array([[101, 7, 8, 102]])
    batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    assert_close(encoder(batch)["sequence_output"], theirs(batch)["sequence_output"])


# What KerasHub made.


def test_a_backbone(backbone, tokenizer, tmp_path):
    assert both_ways(backbone, tmp_path).pretrained.tokenizer is None
    tokenizer.save_to_preset(str(tmp_path / "preset"))
    for encoder in (
        load(tmp_path / "preset"),
        from_keras_hub(tmp_path / "preset"),
        from_keras_hub(backbone, tokenizer),
    ):
        assert isinstance(encoder, kbert.BertEncoder)
        assert encoder.config.hidden_dropout == encoder.config.attention_dropout == 0.2
        assert encoder.pretrained.tokenizer.vocabulary == VOCABULARY
        assert encoder.pretrained.tokenizer.settings() == {
            "lowercase": True,
            "strip_accents": True,
            "split_on_cjk": True,
            "max_word_length": 100,
            "special_tokens_in_text": False,
        }
        fed, real = batch(), batch()["padding_mask"]
        ours, theirs = encoder(fed, training=False), backbone(fed)
        assert_close(ours["sequence_output"][real], theirs["sequence_output"][real])
        assert_close(ours["pooled_output"], theirs["pooled_output"])
    _, their_tokenizer = to_keras_hub(encoder)
    texts = ["he saw a film.", "Über x"]
    assert their_tokenizer(texts) == tokenizer(texts)
    before = backbone.get_weights()[0].copy()
    encoder.weights[0].assign(encoder.weights[0] + 1.0)  # the values are copies
    np.testing.assert_array_equal(backbone.get_weights()[0], before)


def test_a_masked_lm(hub, backbone, tokenizer, tmp_path):
    preprocessor = hub.BertMaskedLMPreprocessor(tokenizer, sequence_length=11)
    theirs = randomise(hub.BertMaskedLM(backbone, preprocessor), scale=0.3)
    model = both_ways(theirs, tmp_path)
    assert model.task == "masked_lm" and model.config.activation == "gelu_tanh"
    assert (model.head_activation, model.head_layer_norm_epsilon) == ("gelu_erf", 1e-5)
    assert model.pretrained.settings.sequence_length == 11
    fed = batch() | {"mask_positions": np.array([[1, 2], [3, 0], [2, 2]], "int32")}
    assert_close(model(fed, training=False)["mlm_logits"], theirs(fed))
    assert to_keras_hub(model)[0].preprocessor.sequence_length == 11
    assert from_keras_hub(theirs, task="encoder").task == "encoder"
    pretraining = load(tmp_path / "preset", task="pretraining")  # the head keeps what belongs to its weights
    assert pretraining.head_activation == "gelu_erf"
    assert {r.variable.split("/")[0] for r in pretraining.pretrained.report.newly_initialised} == {"next_sentence_head"}


@pytest.mark.slow  # another head both ways: test_a_masked_lm; a classifier: test_files_with_layer_names…
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("classes,task", [(3, "classification"), (1, "regression")])
def test_a_text_classifier(hub, backbone, tokenizer, classes, task, tmp_path):
    preprocessor = hub.BertTextClassifierPreprocessor(tokenizer, sequence_length=9)
    theirs = randomise(hub.BertTextClassifier(backbone, classes, preprocessor, dropout=0.3), scale=0.3)
    model = both_ways(theirs, tmp_path, **({"labels": ["a", "b", "c"]} if classes > 1 else {}))
    assert model.task == task and model.dropout == 0.3 and model.pretrained.settings.sequence_length == 9
    logits = model(batch(), training=False)["logits" if classes > 1 else "score"]
    assert_close(np.reshape(logits, (3, classes)), theirs(batch()))
    if classes > 1:
        assert set(kbert.build_pipeline(model).predict(["he saw"])["label"]) <= {"a", "b", "c"}


def test_an_embedder_is_its_backbone_also_under_the_names_of_keras_nlp(hub, backbone, tmp_path):
    hub.BertTextEmbedder(backbone).save_to_preset(str(tmp_path / "preset"))
    edit(tmp_path / "preset/config.json", registered_name="keras_nlp>BertBackbone", module="keras_nlp.src.models")
    stored = open_checkpoint(tmp_path / "preset")
    assert stored.description.task == "encoder" and "a preset of BertTextEmbedder" in stored.remarks[0]
    assert stored.vocabulary is None


def test_what_has_no_counterpart_is_refused(hub):
    with pytest.raises(TypeError, match="BertBackbone.* Received: Sequential"):
        from_keras_hub(keras.Sequential())
    with pytest.raises(ValueError, match="cannot hold a span head"):
        to_keras_hub(make_model("span with pooler"), tokenizer=tiny_tokenizer())
    with pytest.raises(FileNotFoundError, match="'no_such_preset' .*Without a network"):
        from_keras_hub("no_such_preset")


# What kbert writes.


@pytest.mark.parametrize(
    "name,cls",
    [
        ("masked_lm as KerasHub's", "BertMaskedLM"),
        pytest.param("classification", "BertTextClassifier", marks=pytest.mark.slow),
    ],
)
def test_keras_hub_loads_what_kbert_writes(hub, name, cls, tmp_path):
    save(make_model(name), tmp_path / "out", "kerashub")
    theirs = getattr(hub, cls).from_preset(str(tmp_path / "out"))
    assert theirs.preprocessor.sequence_length == 17
    texts = ["The film is GOOD."]
    ids = [[int(i) for i in row] for row in theirs.preprocessor.tokenizer(texts)]
    ours = load(tmp_path / "out").pretrained.tokenizer(texts).to_list()
    assert ids == ours == [[VOCABULARY.index(t) for t in ("the", "film", "is", "good", ".")]]
    again = hub.BertBackbone.from_preset(str(tmp_path / "out"))
    np.testing.assert_array_equal(again.token_embedding.embeddings, theirs.backbone.token_embedding.embeddings)


@pytest.fixture(scope="module")
def _preset(tmp_path_factory):
    path = tmp_path_factory.mktemp("kerashub") / "preset"
    save(make_model("classification"), path, "kerashub")
    return path


@pytest.fixture
def preset(_preset, tmp_path):
    """A preset that kbert wrote, to be changed."""
    return shutil.copytree(_preset, tmp_path / "preset")


def test_edited_labels_belong_to_the_head(preset):
    task = json.loads((preset / "kbert_settings.json").read_text())["task"]
    edit(preset / "kbert_settings.json", task=task | {"labels": ["one"]})
    assert load(preset).pretrained.settings.task.labels is None


def test_nothing_is_looked_up_by_name(preset):
    """A class named in the files is compared with those known here, never imported."""
    content = json.loads((preset / "config.json").read_text())
    for name in ("os>system", "BertBackbone", "keras_hub>BertBackbone2"):
        edit(preset / "config.json", registered_name=name, class_name=name, module="os")
        with pytest.raises(ValueError, match="Expected a kbert directory|kbert builds BERT"):
            load(preset)
    edit(preset / "config.json", **(content | {"module": "no.such.module"}))
    assert_same_weights(load(preset), make_model("classification"))


def test_files_without_layer_names_are_loaded_by_kerashub(preset):
    """As an older Keras wrote them."""
    import h5py

    expected = load(preset)
    for name in ("model.weights.h5", "task.weights.h5"):
        with h5py.File(preset / name, "a") as file:
            file.visititems(lambda _, entry: entry.attrs.pop("name", None) and None)
    assert isinstance(open_checkpoint(preset).tensors, KerasHubVariables)
    assert_same_weights(load(preset), expected)


def test_files_with_layer_names_are_read_directly(preset, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)  # KerasHub is not even needed
    model = load(preset)
    assert isinstance(open_checkpoint(preset).tensors, H5File)
    assert_same_weights(model, make_model("classification"))


def test_links_to_other_files_are_not_followed(preset, tmp_path):
    import h5py

    place = "layers/dense/vars/0"
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["values"] = np.ones((12, 12), "float32")
    with h5py.File(preset / "model.weights.h5", "a") as file:
        del file[place]
        file[place] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/values")
    with pytest.raises(ValueError, match="is a link .ExternalLink"):
        load(preset)
