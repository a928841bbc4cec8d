"""KerasHub presets: those KerasHub wrote, round trips, refusals, damage."""

import importlib.util
import json
import shutil
import sys

import keras
import numpy as np
import pytest
from helpers.damage import cut, edited, put_lines
from helpers.hf_directory import edit
from helpers.slow_but import slow_but
from helpers.stored_models import assert_same_model, assert_same_weights, load, make_model, save
from helpers.tiny_bert import VOCABULARY, randomise

import kbert
from kbert.weights.diagnostics.parity import measure_parity
from kbert.weights.files.h5_file import H5File
from kbert.weights.formats.kerashub.weights_file import KerasHubVariables
from kbert.weights.open_checkpoint import open_checkpoint

pytestmark = pytest.mark.skipif(importlib.util.find_spec("keras_hub") is None, reason="needs KerasHub")

SIZES = dict(
    vocabulary_size=len(VOCABULARY),
    num_layers=2,
    num_heads=3,
    hidden_dim=12,
    intermediate_dim=20,
    dropout=0.2,
    max_sequence_length=19,
    num_segments=3,
)


def hub():
    """KerasHub's models, imported by the tests alone: it takes seconds of every process that collects them."""
    import keras_hub

    return keras_hub.models


def tokenizer(**arguments):
    return hub().BertTokenizer(vocabulary=VOCABULARY, lowercase=True, **arguments)


def backbone():
    return randomise(hub().BertBackbone(**SIZES), scale=0.3)


def batch():
    rng = np.random.default_rng(2)
    return {
        "token_ids": rng.integers(0, len(VOCABULARY), (3, 7)).astype("int32"),
        "segment_ids": rng.integers(0, 3, (3, 7)).astype("int32"),
        "padding_mask": np.arange(7) < np.array([[7], [4], [5]]),
    }


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


# What KerasHub wrote.


def test_a_backbone(tmp_path):
    theirs = backbone()
    theirs.save_to_preset(str(tmp_path / "preset"))
    tokenizer().save_to_preset(str(tmp_path / "preset"))
    model = load(tmp_path / "preset")
    assert model.task == "encoder" and model.config.hidden_dropout == model.config.attention_dropout == 0.2
    fed = batch()
    ours, expected = model(fed, training=False), theirs(fed)
    real = fed["padding_mask"]
    close(ours["sequence_output"].numpy()[real], expected["sequence_output"].numpy()[real])
    close(ours["pooled_output"], expected["pooled_output"])
    settings = model.pretrained.tokenizer.settings()
    assert settings == {  # KerasHub keeps accents unless told otherwise
        "lowercase": True,
        "strip_accents": False,
        "split_on_cjk": True,
        "max_word_length": 100,
        "special_tokens_in_text": False,
    }
    assert model.pretrained.tokenizer.vocabulary == VOCABULARY


def test_a_masked_lm(tmp_path):
    preprocessor = hub().BertMaskedLMPreprocessor(tokenizer(strip_accents=True), sequence_length=11)
    theirs = randomise(hub().BertMaskedLM(backbone(), preprocessor), scale=0.3)
    theirs.save_to_preset(str(tmp_path / "preset"))
    model = load(tmp_path / "preset")
    assert model.task == "masked_lm" and model.config.activation == "gelu_tanh"
    assert (model.head_activation, model.head_layer_norm_epsilon) == ("gelu_erf", 1e-5)
    fed = batch() | {"mask_positions": np.array([[1, 2], [3, 0], [2, 2]], "int32")}
    close(model(fed, training=False)["mlm_logits"], theirs(fed))
    assert model.pretrained.settings.sequence_length == 11 and model.pretrained.tokenizer.strip_accents is True
    pretraining = load(tmp_path / "preset", task="pretraining")  # the head keeps what belongs to its weights
    assert pretraining.head_activation == "gelu_erf"
    assert {r.variable.split("/")[0] for r in pretraining.pretrained.report.newly_initialised} == {"next_sentence_head"}


@pytest.mark.parametrize("classes,task", [(4, "classification"), (1, "regression")])
def test_a_text_classifier(classes, task, tmp_path):
    preprocessor = hub().BertTextClassifierPreprocessor(tokenizer(), sequence_length=9)
    theirs = hub().BertTextClassifier(backbone(), classes, preprocessor, dropout=0.3)
    randomise(theirs, scale=0.3).save_to_preset(str(tmp_path / "preset"))
    model = load(tmp_path / "preset")
    assert model.task == task and model.dropout == 0.3 and model.pretrained.settings.sequence_length == 9
    fed = batch()
    found = model(fed, training=False)
    close(np.reshape(found["logits" if classes > 1 else "score"], (3, classes)), theirs(fed))


def test_an_embedder_is_its_backbone(tmp_path):
    hub().BertTextEmbedder(backbone()).save_to_preset(str(tmp_path / "preset"))
    stored = open_checkpoint(tmp_path / "preset")
    assert stored.description.task == "encoder" and "a preset of BertTextEmbedder" in stored.remarks[0]
    assert stored.vocabulary is None


def test_the_names_of_keras_nlp(tmp_path):
    backbone().save_to_preset(str(tmp_path / "preset"))
    edit(tmp_path / "preset/config.json", registered_name="keras_nlp>BertBackbone", module="keras_nlp.src.models")
    assert open_checkpoint(tmp_path / "preset").description.task == "encoder"


# Round trips.


@pytest.mark.parametrize(
    "name",
    slow_but(("masked_lm as KerasHub's",), ("encoder", "masked_lm as KerasHub's", "classification", "regression")),
)
def test_round_trip(name, tmp_path):
    model = make_model(name, hidden_dropout=0.2, attention_dropout=0.2, num_segments=3)
    save(model, tmp_path / "out", "kerashub")
    loaded = load(tmp_path / "out")
    assert_same_model(loaded, model)
    report = measure_parity(loaded, tmp_path / "out")
    assert "keras_hub" in report.against and max(report.differences.values()) < 1e-5
    assert set(report.differences) == {"hidden_states/0", "hidden_states/1", "hidden_states/2", "pooled_output"} | (
        set() if model.task == "encoder" else set(model.output)
    )


@pytest.mark.parametrize(
    "name,cls",
    [
        ("masked_lm as KerasHub's", "BertMaskedLM"),
        pytest.param("classification", "BertTextClassifier", marks=pytest.mark.slow),
    ],
)
def test_keras_hub_loads_what_kbert_writes(name, cls, tmp_path):
    model = make_model(name)
    save(model, tmp_path / "out", "kerashub")
    theirs = getattr(hub(), cls).from_preset(str(tmp_path / "out"))
    assert theirs.preprocessor.sequence_length == 17
    ids = [[int(i) for i in row] for row in theirs.preprocessor.tokenizer(["The film is GOOD."])]
    assert ids == model_ids(model, tmp_path) == [[VOCABULARY.index(t) for t in ("the", "film", "is", "good", ".")]]
    again = hub().BertBackbone.from_preset(str(tmp_path / "out"))
    np.testing.assert_array_equal(again.token_embedding.embeddings, theirs.backbone.token_embedding.embeddings)


def model_ids(model, tmp_path):
    return load(tmp_path / "out").pretrained.tokenizer(["The film is GOOD."]).to_list()


@pytest.mark.parametrize(
    "name,fields,reason",
    [
        ("encoder", {"activation": "gelu_erf"}, "activation='gelu_erf'.*means 'gelu_tanh' always"),
        ("encoder", {"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon=1e-06"),
        ("encoder", {"causal": True}, "causal=True"),
        ("encoder", {"hidden_dropout": 0.2}, "one number `dropout`"),
        ("encoder without pooler", {}, "without pooler: BertBackbone always has one"),
        ("masked_lm with pooler", {}, r"\('gelu_erf', 1e-05\). Received: .*\('gelu_tanh', 1e-12\)"),
        ("pretraining", {}, "next-sentence head"),
        ("next_sentence", {}, "next-sentence head"),
        ("span with pooler", {}, "span head"),
        ("tagging", {}, "tagging head"),
        ("multiple_choice", {}, "multiple-choice head"),
        ("masked_lm, untied", {}, "untied decoder"),
    ],
)
def test_what_it_cannot_hold_is_refused(name, fields, reason, tmp_path):
    with pytest.raises(ValueError, match=f'format="kerashub".*{reason}'):
        save(make_model(name, **fields), tmp_path / "out", "kerashub")
    assert not list(tmp_path.iterdir())


# What can be wrong.


@pytest.fixture(scope="module")
def _preset(tmp_path_factory):
    path = tmp_path_factory.mktemp("kerashub") / "preset"
    save(make_model("classification"), path, "kerashub")
    return path


@pytest.fixture
def preset(_preset, tmp_path):
    """A preset that kbert wrote, to be changed."""
    return shutil.copytree(_preset, tmp_path / "preset")


def with_config(name, **changes):
    """Changes entries of the config within a JSON file."""
    return lambda path: edit(path / name, config=json.loads((path / name).read_text())["config"] | changes)


DAMAGE = {
    "another model": (
        edited("config.json", registered_name="keras_hub>RobertaBackbone"),
        "kbert builds BERT, a BertBackbone. Received: RobertaBackbone",
    ),
    "quantised": (
        with_config("config.json", dtype={"class_name": "DTypePolicyMap", "config": {}}),
        r"quantised \(DTypePolicyMap\)",
    ),
    "other sizes": (
        with_config("config.json", intermediate_dim=21),
        "config.json: `intermediate_dim` is 21, but .*model.weights.h5 has 20",
    ),
    "truncated": (cut("model.weights.h5", -999), "model.weights.h5 is truncated or no HDF5 file"),
    "truncated head": (cut("task.weights.h5", 2000), "task.weights.h5 is truncated or no HDF5 file"),
    "classifier with softmax": (
        with_config("task.json", activation="softmax"),
        "activation='softmax' gives no logits",
    ),
    "short vocabulary": (
        put_lines("assets/tokenizer/vocabulary.txt", VOCABULARY[:-1]),
        r"\(25\). Received: 24 tokens",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_before_anything_is_built(preset, kind, monkeypatch):
    damage, message = DAMAGE[kind]
    damage(preset)
    monkeypatch.setattr(kbert.BertEncoder, "__init__", None)
    with pytest.raises(ValueError, match=message):
        load(preset)


def test_a_missing_file_is_named(preset):
    (preset / "task.weights.h5").unlink()
    with pytest.raises(FileNotFoundError, match="task.weights.h5"):
        load(preset)


def test_another_task_takes_the_encoder(preset):
    model, stored = load(preset, task="tagging", num_labels=2), load(preset)
    assert {r.variable.split("/")[0] for r in model.pretrained.report.newly_initialised} == {"tagger_head"}
    assert {r.source for r in model.pretrained.report.unused} == {
        "logits/kernel",
        "logits/bias",
        "pooled_dense/kernel",
        "pooled_dense/bias",
    }
    for variable in model.encoder.weights:
        other = next(v for v in stored.weights if v.path == variable.path)
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), keras.ops.convert_to_numpy(other))


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


# Files of an older Keras.


def test_files_without_layer_names_are_loaded_by_kerashub(preset):
    import h5py

    expected = load(preset)
    for name in ("model.weights.h5", "task.weights.h5"):
        with h5py.File(preset / name, "a") as file:
            file.visititems(lambda _, entry: entry.attrs.pop("name", None) and None)
    stored = open_checkpoint(preset)
    assert isinstance(stored.tensors, KerasHubVariables)
    model = load(preset)
    assert_same_weights(model, expected)


def test_files_with_layer_names_are_read_directly(preset, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)  # KerasHub is not even needed
    model = load(preset)
    assert isinstance(open_checkpoint(preset).tensors, H5File)
    assert_same_weights(model, make_model("classification"))


def test_links_to_other_files_are_not_followed(preset, tmp_path):
    import h5py

    (tmp_path / "elsewhere").mkdir()
    place = "layers/dense/vars/0"
    with h5py.File(tmp_path / "elsewhere/secret.h5", "w") as file:
        file["values"] = np.ones((12, 12), "float32")
    with h5py.File(preset / "model.weights.h5", "a") as file:
        del file[place]
        file[place] = h5py.ExternalLink(str(tmp_path / "elsewhere/secret.h5"), "/values")
    with pytest.raises(ValueError):
        load(preset)
