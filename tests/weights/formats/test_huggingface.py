"""Hugging Face directories, without torch or transformers: what it wrote, the pain list, what the config says."""

import functools
import json
import shutil

import keras
import numpy as np
import pytest
from golden.hf_make import make_batch
from golden.make_bert import LABELS, SIZES
from helpers.hf_directory import GOLDEN, copy_golden, edit, rewrite
from helpers.model_settings import settings_of
from helpers.stored_models import assert_same_weights, load
from helpers.tiny_bert import tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_inputs
from safetensors.numpy import load_file, save_file

import kbert
from kbert.files import write_json
from kbert.weights.description import ModelDescription
from kbert.weights.files.safetensors_file import write_safetensors
from kbert.weights.formats.huggingface_weights import open_huggingface_weights
from kbert.weights.source import open_checkpoint

FORMS = ("safetensors", "sharded", "bin", "old_bin")


def values(prefix=""):
    """What transformers computed, by name."""
    with np.load(GOLDEN / "hf_values.npz") as file:
        return {name.removeprefix(prefix): file[name] for name in file if name.startswith(prefix)}


@functools.cache
def _encoder(config):
    return kbert.BertEncoder(config, outputs=("hidden_states", "pooled_output"))


def check_outputs(model, wanted, atol=1e-5):
    """A pre-training model's outputs and hidden states are those wanted."""
    batch, encoder = make_batch(), _encoder(model.config)
    for variable, value in zip(encoder.weights, model.encoder.weights, strict=True):
        variable.assign(value)
    rows = {name: batch[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    states = keras.ops.stack(encoder(rows, training=False)["hidden_states"])
    found = {**model(batch, training=False), "hidden_states": states}
    for name in ("hidden_states", "mlm_logits", "nsp_logits"):
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(found[name]), wanted[name], rtol=0, atol=atol, err_msg=name
        )


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


# The files of weights.


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


def test_shards_of_pickles(directory):
    """pytorch_model.bin.index.json, as the largest models had it before safetensors."""
    copy_golden("bin", directory / "bin")
    for number, form in enumerate(("hf_bin", "hf_old_bin"), start=1):
        shutil.copy(GOLDEN / form / "pytorch_model.bin", directory / f"pytorch_model-0000{number}-of-00002.bin")
    names = list(open_checkpoint(directory / "bin").tensors.tensors)
    places = {name: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, name in enumerate(names)}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    expected = load(directory)
    assert_same_weights(load(directory / "pytorch_model.bin.index.json"), expected)
    (directory / "model.safetensors").unlink()
    assert_same_weights(load(directory), expected)


def test_a_file_of_weights_may_be_named(directory):
    """Of several that lie there it is the one read."""
    assert open_checkpoint(GOLDEN / "hf_safetensors/model.safetensors").description.task == "pretraining"
    assert open_checkpoint(GOLDEN / "hf_safetensors/config.json").description.task == "pretraining"
    shutil.copy(GOLDEN / "hf_bin/pytorch_model.bin", directory)
    rewrite(directory, add={"bert.pooler.dense.bias": np.ones(12)})
    assert set(load(directory).encoder.pooler.get_weights()[1]) == {1.0}
    stored = open_checkpoint(directory / "pytorch_model.bin")
    assert stored.tensors.path == directory / "pytorch_model.bin" and stored.description.task == "pretraining"
    assert set(stored.tensors.read("bert.pooler.dense.bias")) != {1.0}
    (directory / "epoch_3.pt").write_bytes((directory / "pytorch_model.bin").read_bytes())
    with pytest.raises(ValueError, match="epoch_3.pt', which is none of their files"):
        open_checkpoint(directory / "epoch_3.pt")


@pytest.mark.parametrize("dtype, name", [("int8", "int8"), ("int64", "I64"), ("float8_e4m3fn", "F8_E4M3")])
def test_quantised_weights_are_refused(directory, dtype, name):
    path = directory / "model.safetensors"
    save_file(load_file(path) | {"bert.pooler.dense.bias": np.zeros(12, dtype)}, path)
    problem = rf"weights of a type that kbert does not read: bert.pooler.dense.bias \({name}\).*quantised"
    with pytest.raises(ValueError, match=problem):
        open_checkpoint(directory)


# What the config says, and the files beside it.


def test_everything_the_config_says_is_honoured(directory):
    edit(directory / "config.json", hidden_act="gelu_new", type_vocab_size=2, is_decoder=True, initializer_range=0.05)
    config = open_checkpoint(directory).description.config
    assert (config.activation, config.causal, config.initializer_stddev) == ("gelu_tanh", True, 0.05)
    for name, activation in [
        ("gelu_pytorch_tanh", "gelu_tanh"),
        ("gelu_python", "gelu_erf"),
        ("relu", "relu"),
        ("swish", "silu"),
        (..., "gelu_erf"),
    ]:
        edit(directory / "config.json", hidden_act=name)
        assert open_checkpoint(directory).description.config.activation == activation


@pytest.mark.parametrize("config", ["config.json", "bert_config.json"])
def test_a_config_that_names_no_model(directory, config):
    """The names of the tensors decide; an encoder saved by itself may be a relative of BERT with the same names."""
    expected = load(directory)
    edit(directory / "config.json", model_type=..., architectures=...)
    (directory / "config.json").rename(directory / config)
    assert_same_weights(load(directory), expected)
    names = [name for name in open_huggingface_weights(directory).tensors if name.startswith("cls.")]
    tensors = rewrite(directory, rename=lambda name: name.removeprefix("bert."), drop=names)
    assert open_checkpoint(directory).description.task == "encoder"

    def load_with(drop=(), rename=lambda name: name, **changes):
        edit(directory / config, **changes)
        save_file({rename(n): v for n, v in tensors.items() if not n.startswith(drop)}, directory / "model.safetensors")
        open_checkpoint(directory)

    refused = f'{config} names no model, and .* add "model_type": "bert" to {config}'
    wrong_inputs(
        lambda arguments: load_with(**arguments),
        ({"drop": "pooler."}, refused),  # as ELECTRA
        ({"rename": lambda name: "roberta." + name}, refused),
        ({"type_vocab_size": 1}, refused),  # as RoBERTa
    )


def test_what_kbert_cannot_represent_is_refused_before_anything_is_built(directory, monkeypatch):
    monkeypatch.setattr(ModelDescription, "build", None)
    sound = (directory / "config.json").read_text()

    def load_with(changes):
        (directory / "config.json").write_text(sound)
        edit(directory / "config.json", **changes)
        load(directory)

    wrong_inputs(
        load_with,
        ({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key' cannot be represented"),
        ({"add_cross_attention": True, "is_decoder": True}, "no cross attention"),
        ({"is_encoder_decoder": True}, "encoder-decoders"),
        ({"model_type": "roberta"}, "model_type \"bert\". Received: 'roberta'"),
        ({"model_type": ..., "architectures": ["DistilBertModel"]}, "Received: 'DistilBertModel'"),
        ({"hidden_act": "quick_gelu"}, "hidden_act='quick_gelu' is an activation that kbert does not have"),
        ({"pruned_heads": {"0": [1]}}, "pruned heads"),
        ({"quantization_config": {"bits": 8}}, "quantised"),
        ({"hidden_size": 13}, "`num_attention_heads` must divide `hidden_size`"),
        ({"vocab_size": ..., "hidden_size": ...}, "does not say vocab_size, hidden_size"),
        ({"hidden_dropout_prob": 1.5}, "config.json: .*hidden_dropout"),
        ({"intermediate_size": 21}, "`intermediate_size` is 21, but .*model.safetensors has 20"),
        ({"vocab_size": 30}, r"`vocab_size` is 30, but .* has 29 \(.*word_embeddings.weight of shape \(29, 12\)"),
        ({"num_hidden_layers": 3}, "config.json: `num_hidden_layers` is 3, but .*model.safetensors has 2"),
    )


def classifier(directory, rows, **changes):
    """The golden directory as a classifier of so many labels."""
    file = open_huggingface_weights(directory)
    rng = np.random.default_rng(4)
    head = {"classifier.weight": rng.normal(size=(rows, 12)), "classifier.bias": rng.normal(size=rows)}
    rewrite(directory, drop=[name for name in file.tensors if name.startswith("cls.")], add=head)
    edit(directory / "config.json", **{"architectures": ["BertForSequenceClassification"], **changes})


@pytest.mark.usefixtures("eagerly")
def test_labels(directory):
    classifier(directory, 3, id2label={"1": "b", "0": "a", "2": "c"})
    model = load(directory)
    assert (model.task, model.num_labels) == ("classification", 3)
    assert model.pretrained.settings.task.labels == ("a", "b", "c")
    assert kbert.build_pipeline(model, sequence_length=9).predict(["paris"], verbose=0)["label"][0] in "abc"
    other = load(directory, num_labels=4)
    assert len(other.pretrained.report.newly_initialised) == 2 and other.pretrained.settings.task.labels is None
    tagger = load(directory, task="tagging", num_labels=3)  # the head has the same name there, but is another one
    assert {r.variable.split("/")[0] for r in tagger.pretrained.report.newly_initialised} == {"tagger_head"}
    edit(directory / "config.json", id2label={"0": "a", "1": "b"})
    with pytest.raises(ValueError, match="id2label must name the labels 0 … 2"):
        open_checkpoint(directory)


def test_a_classifier_of_one_label_is_a_regressor(directory):
    classifier(directory, 1, problem_type="regression")
    assert open_checkpoint(directory).description.task == "regression"
    classifier(directory, 2, problem_type="regression")
    with pytest.raises(ValueError, match="problem_type='regression' with 2 outputs cannot be represented"):
        open_checkpoint(directory)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_multi_label_classifier(directory, rows):
    classifier(directory, rows, problem_type="multi_label_classification")
    description = open_checkpoint(directory).description
    assert (description.task, description.arguments["multi_label"]) == ("classification", True)
    classifier(directory, 2, problem_type=...)
    assert not open_checkpoint(directory).description.arguments["multi_label"]


@pytest.mark.parametrize("pooler", [True, False])
def test_a_classifier_without_architectures(directory, pooler):
    classifier(directory, 2, architectures=...)
    if not pooler:
        rewrite(directory, drop=["bert.pooler.dense.weight", "bert.pooler.dense.bias"])
    stored = open_checkpoint(directory)
    assert stored.description.task == ("classification" if pooler else "tagging")
    assert any("does not say which class" in remark for remark in stored.remarks)


@pytest.mark.usefixtures("eagerly")
def test_sentence_transformers_say_how_they_pool(directory):
    (directory / "1_Pooling").mkdir()
    modes = {"word_embedding_dimension": 12, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (directory / "1_Pooling/config.json").write_text(json.dumps(modes))
    (directory / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Normalize"}]))
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 7, "do_lower_case": False}))
    model = load(directory, task="encoder")
    settings = model.pretrained.settings
    assert (settings.task.pooling, settings.task.normalize, settings.sequence_length) == ("cls", True, 7)
    embedding = kbert.build_pipeline(model).predict(["paris is big", "old river"], verbose=0)["embedding"]
    np.testing.assert_allclose(np.linalg.norm(embedding, axis=1), 1.0, rtol=1e-6)
    similarity = load(directory, task="similarity")
    assert (similarity.pooling, similarity.normalize) == ("cls", True)
    assert load(directory, task="similarity", pooling="max").pooling == "max"
    assert open_checkpoint(directory).remarks == ()
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    types = [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    (directory / "modules.json").write_text(json.dumps(types))
    (line,) = open_checkpoint(directory).remarks
    assert "has the modules ['Dense'], kbert has not" in line
    (directory / "1_Pooling/config.json").write_text(json.dumps({**modes, "pooling_mode_mean_tokens": True}))
    assert any("which kbert does not have" in line for line in open_checkpoint(directory).remarks)


@pytest.mark.parametrize("mode", ["cls", ["cls"]])
def test_sentence_transformers_6(directory, caplog, mode):
    """Its pooling has a name, and the length stands in the tokenizer's settings."""
    (directory / "1_Pooling").mkdir()
    write_json(directory / "1_Pooling/config.json", {"embedding_dimension": 12, "pooling_mode": mode})
    write_json(directory / "sentence_bert_config.json", {"transformer_task": "feature-extraction"})
    settings = kbert.load_pretrained(directory, task="encoder").pretrained.settings
    assert (settings.task.pooling, settings.sequence_length) == ("cls", 13)  # its tokenizer has no limit
    edit(directory / "tokenizer_config.json", model_max_length=7)
    assert open_checkpoint(directory).settings.sequence_length == 7 and "sentence-transformers" not in caplog.text
    prompts = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}
    write_json(directory / "config_sentence_transformers.json", prompts)
    edit(directory / "1_Pooling/config.json", pooling_mode=["cls", "mean"])
    remarks = open_checkpoint(directory).remarks
    assert "pools it by ['cls', 'mean'], which kbert does not have" in remarks[0] and len(remarks) == 2
    assert "puts 'query: ' before every text" in remarks[1] and remarks[1] in caplog.text


@pytest.mark.parametrize("strip_accents", [None, True])
def test_sentence_transformers_lowercase_before_a_cased_tokenizer(directory, strip_accents):
    edit(directory / "tokenizer_config.json", do_lower_case=False, strip_accents=strip_accents)
    for value, lowercase in ((None, False), (True, True)):
        write_json(directory / "sentence_bert_config.json", {"max_seq_length": 7, "do_lower_case": value})
        settings = open_checkpoint(directory).settings.tokenizer
        assert (settings["lowercase"], bool(settings["strip_accents"])) == (lowercase, bool(strip_accents))
    edit(directory / "tokenizer_config.json", do_lower_case=True)  # accents as that tokenizer says
    assert open_checkpoint(directory).settings.tokenizer["strip_accents"] is strip_accents


def test_labels_that_are_numbers(directory):
    """As transformers writes them for somebody whose data have numbers."""
    classifier(directory, 2, id2label={"0": 1, "1": 2.5}, num_classes=None)  # the last is no field of a BERT's config
    assert open_checkpoint(directory).settings.task.labels == ("1", "2.5")


def test_the_pooler_that_is_not_used_is_named(directory, caplog):
    caplog.set_level("INFO", logger="kbert")
    kbert.load_pretrained(directory, task="span")
    assert "bert.pooler: unused (2 variables)" in caplog.text


def test_thresholds_are_of_the_labels_that_they_were_stored_with(tmp_path, caplog):
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
    assert "dropped" not in caplog.text
    loaded = kbert.load_pretrained(tmp_path / "model").pretrained
    assert loaded.settings.task.labels == ("dull", "fun") and loaded.settings.task.thresholds is None
    (remark,) = loaded.report.remarks
    assert remark == "`id2label` or `problem_type` changed, so the stored thresholds are dropped"
    assert f"{config}: {remark}" in caplog.messages


@pytest.mark.parametrize("id2label", [{"0": "LABEL_0", "1": "LABEL_1"}, None, {"0": "dull", "1": "fun"}])
def test_thresholds_of_labels_without_names(id2label, tmp_path):
    model = kbert.BertClassifier(tiny_config(), num_labels=2, multi_label=True)
    settings = settings_of("classification", 17, thresholds=[0.2, 0.9])
    kbert.save_pretrained(
        model, tmp_path / "model", format="huggingface", tokenizer=tiny_tokenizer(), settings=settings
    )
    edit(tmp_path / "model/config.json", id2label=id2label)
    thresholds = open_checkpoint(tmp_path / "model").settings.task.thresholds
    assert thresholds == (None if id2label and "dull" in id2label.values() else (0.2, 0.9))
