"""KerasHub's models, in memory and as presets that it opens and writes itself."""

import importlib.util

import keras
import numpy as np
import pytest
from helpers.hf_directory import edit
from helpers.parity import measure_parity
from helpers.paths import ROOT
from helpers.run_recipe import run_kbert
from helpers.slow_but import slow_but
from helpers.stored_models import assert_same_weights, load, make_model, save, weights
from helpers.tiny_bert import VOCABULARY, randomise, tiny_tokenizer

import kbert
from kbert.files import read_json
from kbert.weights import from_keras_hub, to_keras_hub

HELD = ("encoder", "masked_lm as KerasHub's", "classification", "regression")
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
    model, stored = from_keras_hub(theirs, **overrides), from_keras_hub(tmp_path / "preset", **overrides)
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
    pretraining = from_keras_hub(tmp_path / "preset", task="pretraining")  # the head keeps what belongs to its weights
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


def test_an_embedder_is_its_backbone(hub, backbone, tmp_path):
    embedder = hub.BertTextEmbedder(backbone)
    embedder.save_to_preset(str(tmp_path / "preset"))
    for source in (embedder, tmp_path / "preset"):
        model = from_keras_hub(source)
        assert model.task == "encoder"
        assert model.pretrained.tokenizer is None
        np.testing.assert_array_equal(model.weights[0], backbone.token_embedding.embeddings)


def test_what_has_no_counterpart_is_refused(hub):
    with pytest.raises(TypeError, match="BertBackbone.* Received: Sequential"):
        from_keras_hub(keras.Sequential())
    with pytest.raises(ValueError, match="cannot hold the span head"):
        to_keras_hub(make_model("span with pooler"), tokenizer=tiny_tokenizer())
    with pytest.raises(FileNotFoundError, match="'no_such_preset' .*Without a network"):
        from_keras_hub("no_such_preset")
    classifier = hub.BertTextClassifier(hub.BertBackbone(**SIZES), num_classes=3, activation="softmax")
    with pytest.raises(ValueError, match="activation='softmax' gives no logits"):
        from_keras_hub(classifier)
    with pytest.raises(ValueError, match="give another `tokenizer`"):
        from_keras_hub(classifier, vocabulary="vocab.txt")


def test_lora_and_int8_are_refused(hub):
    """Their kernels are not what the layers compute with."""
    backbone = hub.BertBackbone(**SIZES)
    backbone.enable_lora(2)
    with pytest.raises(ValueError, match="without LoRA. Received: one with"):
        from_keras_hub(backbone)
    quantized = hub.BertBackbone(**SIZES)
    quantized.quantize("int8")
    with pytest.raises(ValueError, match="weights of a type that kbert does not read"):
        from_keras_hub(quantized)


def test_a_damaged_preset_and_one_of_another_model(backbone, tmp_path):
    backbone.save_to_preset(str(tmp_path / "preset"))
    weights = tmp_path / "preset/model.weights.h5"
    weights.write_bytes(weights.read_bytes()[:-999])
    with pytest.raises(ValueError, match="^from_keras_hub: KerasHub could not load a BERT from the preset .*preset"):
        from_keras_hub(tmp_path / "preset")
    with pytest.raises(ValueError, match="which is a KerasHub preset: kbert.weights.from_keras_hub opens it"):
        load(tmp_path / "preset")
    edit(tmp_path / "preset/config.json", registered_name="keras_hub>RobertaBackbone", class_name="RobertaBackbone")
    with pytest.raises(ValueError, match="could not load a BERT"):
        from_keras_hub(tmp_path / "preset")


# What kbert writes.

REFUSED = [
    ("encoder", {"activation": "gelu_erf"}, "activation='gelu_erf': its models always have 'gelu_tanh'"),
    ("encoder", {"hidden_dropout": 0.2}, "one number `dropout`"),
    ("encoder without pooler", {}, "without pooler: its BERT always has one"),
    ("masked_lm with pooler", {}, r"\('gelu_erf', 1e-05\). Received: .*\('gelu_tanh', 1e-12\)"),
    ("pretraining", {}, "the next sentence head"),
    ("next_sentence", {}, "the next sentence head"),
    ("span with pooler", {}, "the span head"),
    ("tagging", {}, "the tagger head: its models have none"),
    ("multiple_choice", {}, "the multiple choice head"),
    ("masked_lm, untied", {}, "the untied decoder"),
    ("similarity", {"attention_dropout": 0.1}, "a similarity model, which would be read as an encoder"),
]


@pytest.mark.parametrize("name,fields,reason", REFUSED)
def test_what_kerashub_cannot_hold_is_refused(name, fields, reason):
    with pytest.raises(ValueError, match=f'format="kerashub".*{reason}'):
        to_keras_hub(make_model(name, **fields), tiny_tokenizer())


def test_special_tokens_of_ones_own_are_refused():
    with pytest.raises(ValueError, match="no special tokens of one's own"):
        to_keras_hub(make_model("encoder"), tiny_tokenizer(special_tokens_in_text=["good"]))


# An encoder and a regressor: test_a_backbone, test_a_text_classifier.
@pytest.mark.parametrize("name", slow_but(("masked_lm as KerasHub's", "classification"), HELD))
def test_kerashub_computes_the_same(hub, name, tmp_path):
    """From memory, and from a preset that kbert convert wrote; read back, every weight is equal."""
    model = make_model(name, hidden_dropout=0.2, attention_dropout=0.2, num_segments=3)
    save(model, tmp_path / "ours", "huggingface")
    run_kbert("convert", "--source", tmp_path / "ours", "--format", "kerashub", "--output", tmp_path / "preset")
    report = measure_parity(model, tmp_path / "preset")
    assert "keras_hub" in report.against and max(report.differences.values()) < 1e-5
    heads = set() if model.task == "encoder" else set(model.output)
    assert set(report.differences) == {*(f"hidden_states/{i}" for i in range(3)), "pooled_output"} | heads
    report = tmp_path / "report.json"
    source = ("--source", tmp_path / "preset", "--output", tmp_path / "again", "--report", report)
    run_kbert("convert", *source)
    again = load(tmp_path / "again")
    assert_same_weights(again, model)
    assert again.task == model.task and again.dropout == model.dropout
    tokenizer = again.pretrained.tokenizer
    assert (tokenizer.vocabulary, tokenizer.lowercase) == (VOCABULARY, True)
    names = {row["variable"]: row["source"] for row in read_json(report)["read"]["rows"]}
    assert names["encoder_block_1/attention/query/kernel"] == "transformer_layer_1/self_attention_layer/query/kernel"
    if name != "encoder":
        assert again.pretrained.settings.sequence_length == 17  # of its preprocessor


def test_a_preset_is_replaced_only_on_demand(tmp_path):
    save(make_model("encoder", num_layers=1), tmp_path / "ours", "huggingface")
    run = ("convert", "--source", tmp_path / "ours", "--format", "kerashub", "--output", tmp_path / "preset")
    run_kbert(*run)
    for more, message in ((), "overwrite"), (("--storage-dtype", "bfloat16"), "only format=.huggingface. takes"):
        with pytest.raises(SystemExit, match=message):
            run_kbert(*run, *more)
    run_kbert(*run, "--overwrite")
    (tmp_path / "preset/notes.txt").write_text("")
    with pytest.raises(SystemExit, match="notes.txt"):
        run_kbert(*run, "--overwrite")
