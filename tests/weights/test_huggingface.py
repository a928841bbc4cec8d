"""Hugging Face directories, without torch or transformers: golden files, round trips, the pain list, refusals."""

import json

import keras
import numpy as np
import pytest
from golden.hf_make import make_batch
from golden.make_bert import LABELS, SIZES
from helpers.hf_directory import GOLDEN, copy_golden, edit, rewrite
from helpers.stored_models import MODELS, assert_same_model, assert_same_weights, load, make_model, save

import kbert
from kbert.weights.huggingface_file import open_huggingface_weights
from kbert.weights.read_source import read_source
from kbert.weights.safetensors_file import write_safetensors

FORMS = ("safetensors", "sharded", "bin", "old_bin")


def values(prefix=""):
    with np.load(GOLDEN / "hf_values.npz") as file:
        return {name.removeprefix(prefix): file[name] for name in file if name.startswith(prefix)}


def check_outputs(model, wanted, atol=1e-5):
    batch = make_batch()
    outputs = model(batch, training=False)
    encoder = kbert.BertEncoder(model.config, outputs=("hidden_states", "pooled_output"))
    for variable, value in zip(encoder.weights, model.encoder.weights, strict=True):
        variable.assign(value)
    rows = {name: batch[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    found = {**outputs, "hidden_states": keras.ops.stack(encoder(rows, training=False)["hidden_states"])}
    for name in ("hidden_states", "mlm_logits", "nsp_logits"):
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(found[name]), wanted[name], rtol=0, atol=atol, err_msg=name
        )


@pytest.fixture
def directory(tmp_path):
    """A copy of the golden directory, to be changed."""
    return copy_golden("safetensors", tmp_path / "model")


# What transformers and torch wrote.


@pytest.mark.parametrize("form", FORMS)
def test_every_form_computes_what_transformers_does(form):
    model = load(GOLDEN / f"hf_{form}")
    assert model.task == "pretraining" and model.tied
    config = model.config
    assert (config.activation, config.layer_norm_epsilon) == ("gelu_erf", 1e-6)
    assert (config.hidden_dropout, config.attention_dropout, config.initializer_stddev) == (0.3, 0.2, 0.02)
    check_outputs(model, values())
    assert_same_weights(model, load(GOLDEN / "hf_safetensors"))
    assert not model.pretrained.report.unused and not model.pretrained.report.newly_initialised


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_is_widened_exactly(half):
    model = load(GOLDEN / f"hf_{half}")
    assert {v.dtype for v in model.weights} == {"float32"}
    check_outputs(model, values(half + "/"))


HEADS = {
    "classification": ("BertForSequenceClassification", "logits", "classification"),
    "tagging": ("BertForTokenClassification", "logits", "tagging"),
    "span": ("BertForQuestionAnswering", "start_logits", "start_logits"),
    "multiple_choice": ("BertForMultipleChoice", "logits", "multiple_choice"),
}


@pytest.mark.parametrize("task", HEADS)
def test_every_head_computes_what_transformers_does(task, tmp_path):
    """The weights and outputs of golden/make_bert.py, in a file."""
    architecture, output, wanted = HEADS[task]
    with np.load(GOLDEN / "bert_gelu_erf.npz") as file:
        golden = {name: file[name] for name in file}
    tensors = {
        name.removeprefix("weights/").removeprefix(task + "."): value
        for name, value in golden.items()
        if name.startswith(("weights/bert.", f"weights/{task}."))
    }
    pooler = task in ("classification", "multiple_choice")
    tensors = {name: value for name, value in tensors.items() if pooler or "pooler" not in name}
    write_safetensors(tmp_path / "model.safetensors", {n: (v.shape, lambda v=v: v) for n, v in tensors.items()})
    config = {
        "architectures": [architecture],
        "model_type": "bert",
        "vocab_size": SIZES["vocabulary_size"],
        "num_hidden_layers": SIZES["num_layers"],
        "hidden_size": SIZES["hidden_dim"],
        "num_attention_heads": SIZES["num_heads"],
        "intermediate_size": SIZES["intermediate_dim"],
        "max_position_embeddings": SIZES["max_sequence_length"],
        "type_vocab_size": SIZES["num_segments"],
        "id2label": {str(i): f"name {i}" for i in range(LABELS)},
        "classifier_dropout": 0.4,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = load(tmp_path)
    assert model.task == task and (model.encoder.pooler is not None) == pooler
    prefix = "inputs/choice_" if task == "multiple_choice" else "inputs/"
    batch = {name: golden[prefix + name] for name in ("token_ids", "segment_ids", "padding_mask")}
    found = keras.ops.convert_to_numpy(model(batch, training=False)[output])
    np.testing.assert_allclose(found, golden["outputs/" + wanted], rtol=0, atol=1e-5)
    if task != "span":
        assert model.dropout == 0.4
    if task in ("classification", "tagging"):
        assert model.pretrained.settings.labels == [f"name {i}" for i in range(LABELS)]


# The pain list.


def test_old_names_of_layer_norm(directory):
    names = rewrite(directory, lambda n: n.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
        "LayerNorm.bias", "LayerNorm.beta"))  # fmt: skip
    assert sum("gamma" in name for name in names) == 6
    check_outputs(load(directory), values())


def test_no_bert_prefix(directory):
    names = rewrite(directory, lambda name: name.removeprefix("bert."))
    assert "embeddings.word_embeddings.weight" in names
    check_outputs(load(directory), values())


def test_no_pooler_and_no_heads(directory):
    file = open_huggingface_weights(directory)
    rewrite(directory, drop=[name for name in file.tensors if "pooler" in name or name.startswith("cls.")])
    model = load(directory)
    assert model.task == "encoder" and model.encoder.pooler is None and list(model.output) == ["sequence_output"]
    assert any(
        "BertForPreTraining, but the weights are an encoder's alone" in r for r in model.pretrained.report.remarks
    )
    with pytest.raises(ValueError, match='format="huggingface" cannot hold an encoder without pooler'):
        kbert.save_pretrained(model, directory.parent / "out", format="huggingface")
    classifier = load(directory, task="classification", num_labels=4)
    new = {row.variable.split("/")[0] for row in classifier.pretrained.report.newly_initialised}
    assert new == {"pooler", "classifier_head"}


def test_buffers_that_were_saved_along(directory):
    rewrite(directory, add={"bert.embeddings.position_ids": np.arange(13.0), "embeddings.token_type_ids": np.zeros(13)})
    model = load(directory)
    assert not model.pretrained.report.unused
    check_outputs(model, values())


def test_a_tied_table_that_was_saved_twice(directory):
    tensors = rewrite(directory)
    table, bias = tensors["bert.embeddings.word_embeddings.weight"], tensors["cls.predictions.bias"]
    rewrite(directory, add={"cls.predictions.decoder.weight": table, "cls.predictions.decoder.bias": bias})
    model = load(directory)
    assert model.tied and not model.pretrained.report.unused
    check_outputs(model, values())


@pytest.mark.parametrize("stated", [False, True])
def test_an_untied_decoder(directory, stated):
    """Where the file holds another table than the encoder's it is untied, whatever the config says: as transformers."""
    rng = np.random.default_rng(3)
    decoder, bias = rng.normal(size=(29, 12)).astype("float32"), rng.normal(size=29).astype("float32")
    rewrite(directory, add={"cls.predictions.decoder.weight": decoder, "cls.predictions.decoder.bias": bias})
    edit(directory / "config.json", tie_word_embeddings=stated)
    model = load(directory)
    assert model.tied is False
    found = {v.path: v.numpy() for v in model.weights}
    np.testing.assert_array_equal(found["masked_lm_head/output_embeddings"], decoder)
    np.testing.assert_array_equal(found["masked_lm_head/output_bias"], bias)
    masked_lm = load(directory, task="masked_lm")
    assert masked_lm.tied is False and not masked_lm.pretrained.report.newly_initialised
    kbert.save_pretrained(model, directory.parent / "out", format="huggingface")
    assert_same_weights(load(directory.parent / "out"), model)
    assert json.loads((directory.parent / "out/config.json").read_text())["tie_word_embeddings"] is False


# The config and the tokenizer's files.


def test_everything_the_config_says_is_honoured(directory):
    edit(directory / "config.json", hidden_act="gelu_new", type_vocab_size=2, is_decoder=True, initializer_range=0.05)
    config = read_source(directory).description.config
    assert (config.activation, config.causal, config.initializer_stddev) == ("gelu_tanh", True, 0.05)
    for name, activation in [("gelu_pytorch_tanh", "gelu_tanh"), ("gelu_python", "gelu_erf"), ("relu", "relu"),
                             ("swish", "silu"), (..., "gelu_erf")]:  # fmt: skip
        edit(directory / "config.json", hidden_act=name)
        assert read_source(directory).description.config.activation == activation


@pytest.mark.parametrize(
    "changes,reason",
    [
        ({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key' cannot be represented"),
        ({"add_cross_attention": True, "is_decoder": True}, "no cross attention"),
        ({"is_encoder_decoder": True}, "encoder-decoders"),
        ({"model_type": "roberta"}, "model_type \"bert\". Received: 'roberta'"),
        ({"model_type": ..., "architectures": ["DistilBertModel"]}, "Received: None"),
        ({"hidden_act": "quick_gelu"}, "hidden_act='quick_gelu' is an activation that kbert does not have"),
        ({"pruned_heads": {"0": [1]}}, "pruned heads"),
        ({"quantization_config": {"bits": 8}}, "quantised"),
        ({"hidden_size": 13}, "num_heads"),
        ({"hidden_size": ...}, "does not say hidden_size"),
        ({"intermediate_size": 21}, r"intermediate.dense.weight: expected \(21, 12\). Received: \(20, 12\)"),
        ({"vocab_size": 30}, r"word_embeddings.weight: expected \(30, 12\). Received: \(29, 12\)"),
        ({"num_hidden_layers": 3}, "lacks 16 variables of the encoder"),
    ],
)
def test_what_kbert_cannot_represent_is_refused_before_anything_is_built(directory, changes, reason, monkeypatch):
    edit(directory / "config.json", **changes)
    monkeypatch.setattr(kbert.BertEncoder, "__init__", None)
    with pytest.raises(ValueError, match=reason):
        load(directory)


def classifier(directory, rows, **changes):
    """The golden directory as a classifier of so many labels."""
    file = open_huggingface_weights(directory)
    rng = np.random.default_rng(4)
    head = {"classifier.weight": rng.normal(size=(rows, 12)), "classifier.bias": rng.normal(size=rows)}
    rewrite(directory, drop=[name for name in file.tensors if name.startswith("cls.")], add=head)
    edit(directory / "config.json", **{"architectures": ["BertForSequenceClassification"], **changes})


def test_labels(directory):
    classifier(directory, 3, id2label={"1": "b", "0": "a", "2": "c"})
    model = load(directory)
    assert (model.task, model.num_labels, model.pretrained.settings.labels) == ("classification", 3, ["a", "b", "c"])
    assert kbert.build_pipeline(model, sequence_length=9).predict(["paris"], verbose=0)["label"][0] in "abc"
    other = load(directory, num_labels=4)
    assert len(other.pretrained.report.newly_initialised) == 2 and other.pretrained.settings.labels is None
    tagger = load(directory, task="tagging", num_labels=3)  # the head has the same name there, but is another one
    assert {r.variable.split("/")[0] for r in tagger.pretrained.report.newly_initialised} == {"tagger_head"}
    edit(directory / "config.json", id2label={"0": "a", "1": "b"})
    with pytest.raises(ValueError, match="id2label must name the labels 0 … 2"):
        read_source(directory)


def test_a_classifier_of_one_label_is_a_regressor(directory):
    classifier(directory, 1, problem_type="regression")
    assert read_source(directory).description.task == "regression"
    for kind in ("multi_label_classification", "regression"):
        classifier(directory, 2, problem_type=kind)
        with pytest.raises(ValueError, match=f"problem_type='{kind}' with 2 outputs cannot be represented"):
            read_source(directory)


@pytest.mark.parametrize("pooler", [True, False])
def test_a_classifier_without_architectures(directory, pooler):
    classifier(directory, 2, architectures=...)
    if not pooler:
        rewrite(directory, drop=["bert.pooler.dense.weight", "bert.pooler.dense.bias"])
    stored = read_source(directory)
    assert stored.description.task == ("classification" if pooler else "tagging")
    assert any("does not say which class" in remark for remark in stored.remarks)


def test_sentence_transformers_say_how_they_pool(directory):
    (directory / "1_Pooling").mkdir()
    modes = {"word_embedding_dimension": 12, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (directory / "1_Pooling/config.json").write_text(json.dumps(modes))
    (directory / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Normalize"}]))
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 7, "do_lower_case": False}))
    model = load(directory, task="encoder")
    settings = model.pretrained.settings
    assert (settings.pooling, settings.normalize, settings.sequence_length) == ("cls", True, 7)
    embedding = kbert.build_pipeline(model).predict(["paris is big", "old river"], verbose=0)["embedding"]
    np.testing.assert_allclose(np.linalg.norm(embedding, axis=1), 1.0, rtol=1e-6)
    (directory / "1_Pooling/config.json").write_text(json.dumps({**modes, "pooling_mode_mean_tokens": True}))
    assert any("which kbert does not have" in line for line in read_source(directory).remarks)


# Round trips.

REFUSED = {
    "encoder without pooler": "without pooler: its BertModel has one",
    "masked_lm with pooler": "masked_lm model whose encoder has a pooler: its BertForMaskedLM has none",
    "span with pooler": "span model whose encoder has a pooler: its BertForQuestionAnswering has none",
    "masked_lm as KerasHub's": "masked-LM head with activation and LayerNorm epsilon",
}


@pytest.mark.parametrize("name", [name for name in MODELS if name not in REFUSED])
def test_round_trip(name, tmp_path):
    activation = {"encoder": "silu", "span": "relu", "tagging": "tanh", "regression": "gelu_erf"}.get(name, "gelu_tanh")
    fields = {"hidden_dropout": 0.3, "attention_dropout": 0.2, "layer_norm_epsilon": 1e-7, "num_segments": 3}
    model = make_model(name, activation=activation, causal=name == "masked_lm", initializer_stddev=0.05, **fields)
    save(model, tmp_path / "out", "huggingface")
    loaded = load(tmp_path / "out")
    assert_same_model(loaded, model)
    save(loaded, tmp_path / "again", "huggingface")
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()
    }


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_hold_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match=f'format="huggingface".*{REFUSED[name]}'):
        save(make_model(name), tmp_path / "out", "huggingface")
    assert not list(tmp_path.iterdir())


def test_a_pooler_that_has_no_part_can_be_left_out(tmp_path):
    save(make_model("span with pooler"), tmp_path / "google", "google")
    model = load(tmp_path / "google", pooler=False)
    assert {row.source for row in model.pretrained.report.unused} == {
        "bert/pooler/dense/kernel",
        "bert/pooler/dense/bias",
    }
    kbert.save_pretrained(model, tmp_path / "hf", format="huggingface")
    assert_same_weights(load(tmp_path / "hf"), model)


# Damaged files.


def damage(kind, path):
    weights = path / "model.safetensors"
    if kind == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif kind == "truncated header":
        weights.write_bytes(weights.read_bytes()[:500])
    elif kind == "empty":
        weights.write_bytes(b"")
    elif kind == "git lfs":
        weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 133466304\n")
    elif kind == "a web page":
        weights.write_text("<!doctype html><html>404</html>")
    elif kind == "no header":
        weights.write_bytes((20).to_bytes(8, "little") + b"x" * 40)
    elif kind == "overlapping sizes":
        weights.write_bytes(weights.read_bytes().replace(b'"shape":[12]', b'"shape":[13]', 1))
    elif kind == "unknown type":
        weights.write_bytes(weights.read_bytes().replace(b'"F32"', b'"F8!"', 1))
    elif kind == "broken config":
        (path / "config.json").write_text('{"model_type": "bert",')
    elif kind == "broken tokenizer":
        (path / "tokenizer.json").write_text("[]")
    elif kind == "missing variable":
        rewrite(path, drop=["bert.encoder.layer.1.output.dense.bias"])
    elif kind == "two names":
        rewrite(path, add={"embeddings.LayerNorm.gamma": np.zeros(12)})


@pytest.mark.parametrize(
    "kind,message",
    [
        ("truncated", r"truncated: the tensor '.*' ends at byte \d+ of the data. Received: \d+"),
        ("truncated header", r"truncated: a header of \d+ bytes is announced"),
        ("empty", "is empty"),
        ("git lfs", "Git LFS pointer"),
        ("a web page", "not a safetensors file"),
        ("no header", "its header is no JSON"),
        ("overlapping sizes", r"of shape \(13,\) and type F32 takes 52 bytes. Received: 48"),
        ("unknown type", "has the type F8!"),
        ("broken config", "config.json is damaged"),
        ("broken tokenizer", "tokenizer.json: expected a JSON object"),
        ("missing variable", "lacks 1 variables of the encoder: encoder_block_1/feed_forward/output/bias"),
        ("two names", "two names of the same variable"),
    ],
)
def test_damage_is_named_before_anything_is_built(directory, kind, message, monkeypatch):
    damage(kind, directory)
    monkeypatch.setattr(kbert.BertEncoder, "__init__", None)
    with pytest.raises(ValueError, match=message):
        load(directory)


def test_shards(tmp_path):
    copy_golden("sharded", tmp_path / "model")
    index = tmp_path / "model/model.safetensors.index.json"
    content = json.loads(index.read_text())
    tensor = "bert.pooler.dense.bias"
    index.write_text(json.dumps({"weight_map": {**content["weight_map"], tensor: "../elsewhere.safetensors"}}))
    with pytest.raises(ValueError, match="shards must lie beside their index"):
        load(tmp_path / "model")
    index.write_text(
        json.dumps({"weight_map": {**content["weight_map"], "bert.more": "model-00001-of-00003.safetensors"}})
    )
    with pytest.raises(ValueError, match="bert.more.*do not belong together"):
        load(tmp_path / "model")
    index.write_text(json.dumps(content))
    (tmp_path / "model/model-00002-of-00003.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="model-00002-of-00003"):
        load(tmp_path / "model")


def test_a_file_of_weights_may_be_named():
    assert read_source(GOLDEN / "hf_safetensors/model.safetensors").description.task == "pretraining"
