"""Hugging Face directories, without torch or transformers: what it wrote, the pain list, round trips."""

import json

import keras
import numpy as np
import pytest
from golden.make_bert import LABELS, SIZES
from helpers.hf_directory import GOLDEN, edit, rewrite
from helpers.hf_values import check_outputs, values
from helpers.slow_but import slow_but
from helpers.stored_models import MODELS, assert_same_model, assert_same_weights, load, make_model, save
from helpers.tiny_bert import tiny_config, tiny_tokenizer

import kbert
from kbert.weights.files.safetensors_file import write_safetensors
from kbert.weights.formats.huggingface.weights_file import open_huggingface_weights

FORMS = ("safetensors", "sharded", "bin", "old_bin")


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
        assert model.pretrained.settings.task.labels == tuple(f"name {i}" for i in range(LABELS))


# The pain list.


def test_old_names_of_layer_norm(directory):
    names = rewrite(
        directory,
        lambda n: n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"),
    )
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


# Round trips.

REFUSED = {
    "encoder without pooler": "without pooler: its BertModel has one",
    "masked_lm with pooler": "masked_lm model whose encoder has a pooler: its BertForMaskedLM has none",
    "span with pooler": "span model whose encoder has a pooler: its BertForQuestionAnswering has none",
    "masked_lm as KerasHub's": "masked-LM head with activation and LayerNorm epsilon",
}


# The others have the variables of these, or a head of one linear layer as these.
HELD = slow_but(("encoder", "pretraining, untied", "masked_lm", "classification", "span"), MODELS)


@pytest.mark.parametrize("name", [one for one in HELD if one.values[0] not in REFUSED])
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


def test_a_left_to_right_model_of_a_pretraining(tmp_path):
    model = make_model("masked_lm", causal=True, pooled_token="last")  # as kbert.pretrain makes it
    save(model, tmp_path / "out", "huggingface")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["BertLMHeadModel"] and config["is_decoder"] is True
    assert_same_model(load(tmp_path / "out"), model)
    with pytest.raises(ValueError, match="cannot hold pooled_token='last'"):
        save(make_model("encoder", causal=True, pooled_token="last"), tmp_path / "pooled", "huggingface")


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


def test_thresholds_are_of_the_labels_that_they_were_stored_with(tmp_path):
    pipeline = kbert.build_pipeline(
        kbert.BertClassifier(tiny_config(), num_labels=2, multi_label=True),
        tiny_tokenizer(),
        labels=["bad", "good"],
        thresholds=[0.2, 0.9],
    )
    kbert.save_pretrained(pipeline, tmp_path / "model", format="huggingface")
    assert kbert.load_pretrained(tmp_path / "model").pretrained.settings.task.thresholds == (0.2, 0.9)
    config = tmp_path / "model" / "config.json"
    stated = json.loads(config.read_text()) | {"id2label": {"0": "dull", "1": "fun"}, "label2id": {"dull": 0, "fun": 1}}
    config.write_text(json.dumps(stated))
    settings = kbert.load_pretrained(tmp_path / "model").pretrained.settings
    assert settings.task.labels == ("dull", "fun") and settings.task.thresholds is None
