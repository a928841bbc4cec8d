"""Hugging Face directories, without torch or transformers: what it wrote, the pain list, what the config says."""

import json
import re
import shutil

import keras
import numpy as np
import pytest
from golden.hf_make import make_batch
from golden.make_bert import LABELS, SIZES
from helpers.hf_directory import GOLDEN, copy_golden, edit, rewrite
from helpers.stored_models import load
from helpers.tiny_bert import randomise

import kbert
from kbert.weights.files.safetensors_file import write_safetensors
from kbert.weights.formats.config_names import BERT_CONFIG_FIELDS
from kbert.weights.formats.huggingface_weights import open_huggingface_weights
from kbert.weights.open_checkpoint import open_checkpoint


def values(prefix=""):
    """What transformers computed, by name."""
    with np.load(GOLDEN / "hf_values.npz") as file:
        return {name.removeprefix(prefix): file[name] for name in file if name.startswith(prefix)}


@pytest.fixture(scope="module")
def check():
    """Function that reads a directory: it computes what transformers did, and every tensor is used."""
    description = open_checkpoint(GOLDEN / "hf_safetensors").description
    model = description.build()
    encoder = kbert.BertEncoder(description.config, outputs=("hidden_states", "pooled_output"))

    def check_directory(directory, wanted=None):
        stored = open_checkpoint(directory)
        assert stored.description == description
        report = stored.load_into(randomise(model))
        assert not report.unused and not report.newly_initialised
        encoder.set_weights(model.encoder.get_weights())
        batch = make_batch()
        rows = {name: batch[name] for name in ("token_ids", "segment_ids", "padding_mask")}
        states = keras.ops.stack(encoder(rows, training=False)["hidden_states"])
        outputs = {**model(batch, training=False), "hidden_states": states}
        for name in ("hidden_states", "mlm_logits", "nsp_logits"):
            ours, theirs = keras.ops.convert_to_numpy(outputs[name]), (wanted or values())[name]
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5, err_msg=name)

    return check_directory


# What transformers and torch wrote.


@pytest.mark.parametrize("form", ["safetensors", "sharded", "bin", "old_bin"])
def test_every_form_computes_what_transformers_does(form, check):
    check(GOLDEN / f"hf_{form}")


def test_what_the_config_of_transformers_says():
    description = open_checkpoint(GOLDEN / "hf_safetensors").description
    assert description.task == "pretraining" and description.arguments["tied"]
    config = description.config
    assert (config.activation, config.layer_norm_epsilon) == ("gelu_erf", 1e-6)
    assert (config.hidden_dropout, config.attention_dropout, config.initializer_stddev) == (0.3, 0.2, 0.02)


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_is_widened_exactly(half, check):
    check(GOLDEN / f"hf_{half}", values(half + "/"))


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
        **{BERT_CONFIG_FIELDS[name]: size for name, size in SIZES.items()},
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


def test_old_names_of_layer_norm(directory, check):
    new = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    names = rewrite(directory, lambda n: re.sub("|".join(new), lambda match: new[match[0]], n))
    assert sum("gamma" in name for name in names) == 6
    check(directory)


def test_no_bert_prefix(directory, check):
    names = rewrite(directory, lambda name: name.removeprefix("bert."))
    assert "embeddings.word_embeddings.weight" in names
    check(directory)


def test_no_pooler_and_no_heads(directory):
    names = open_huggingface_weights(directory).tensors
    rewrite(directory, drop=[name for name in names if "pooler" in name or name.startswith("cls.")])
    model = load(directory)
    assert model.task == "encoder" and model.encoder.pooler is None and list(model.output) == ["sequence_output"]
    (remark,) = model.pretrained.report.remarks
    assert "BertForPreTraining, but the weights are an encoder's alone" in remark


def test_buffers_that_were_saved_along(directory, check):
    rewrite(directory, add={"bert.embeddings.position_ids": np.arange(13.0), "embeddings.token_type_ids": np.zeros(13)})
    check(directory)


def test_a_tied_table_that_was_saved_twice(directory, check):
    tensors = rewrite(directory)
    table, bias = tensors["bert.embeddings.word_embeddings.weight"], tensors["cls.predictions.bias"]
    rewrite(directory, add={"cls.predictions.decoder.weight": table, "cls.predictions.decoder.bias": bias})
    check(directory)


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
    if not stated:
        masked_lm = load(directory, task="masked_lm")
        assert masked_lm.tied is False and not masked_lm.pretrained.report.newly_initialised


# The files of weights.


def test_shards_of_pickles(directory, check):
    """pytorch_model.bin.index.json, as the largest models had it before safetensors."""
    copy_golden("bin", directory / "bin")
    for number, form in enumerate(("hf_bin", "hf_old_bin"), start=1):
        shutil.copy(GOLDEN / form / "pytorch_model.bin", directory / f"pytorch_model-0000{number}-of-00002.bin")
    names = list(open_checkpoint(directory / "bin").tensors.tensors)
    places = {name: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, name in enumerate(names)}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    check(directory / "pytorch_model.bin.index.json")
    (directory / "model.safetensors").unlink()
    check(directory)


def test_a_file_of_weights_may_be_named(directory):
    """Of several that lie there it is the one read; its name decides nothing, its content does."""
    assert open_checkpoint(GOLDEN / "hf_safetensors/model.safetensors").description.task == "pretraining"
    assert open_checkpoint(GOLDEN / "hf_safetensors/config.json").description.task == "pretraining"
    shutil.copy(GOLDEN / "hf_old_bin/pytorch_model.bin", directory / "epoch_3.pt")
    shutil.copy(GOLDEN / "hf_bin/pytorch_model.bin", directory / "weights")
    rewrite(directory, add={"bert.pooler.dense.bias": np.ones(12)})
    assert set(open_checkpoint(directory).tensors.read("bert.pooler.dense.bias")) == {1.0}
    for name in ("epoch_3.pt", "weights"):
        stored = open_checkpoint(directory / name)
        assert stored.tensors.path == directory / name and stored.description.task == "pretraining"
        assert set(stored.tensors.read("bert.pooler.dense.bias")) != {1.0}
    (directory / "notes.txt").write_text("nothing")
    with pytest.raises(ValueError, match="none of their files"):
        open_checkpoint(directory / "notes.txt")


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
    assert (model.task, model.num_labels) == ("classification", 3)
    assert model.pretrained.settings.task.labels == ("a", "b", "c")
    other = load(directory, num_labels=4)
    assert len(other.pretrained.report.newly_initialised) == 2 and other.pretrained.settings.task.labels is None
    edit(directory / "config.json", id2label={"0": "a", "1": "b"})
    with pytest.raises(ValueError, match="id2label must name the labels 0 … 2"):
        open_checkpoint(directory)


def test_the_kind_of_a_classifier(directory):
    for rows, kind, task in (
        (1, "regression", "regression"),
        (1, "multi_label_classification", "classification"),
        (2, "multi_label_classification", "classification"),
        (2, ..., "classification"),
    ):
        classifier(directory, rows, problem_type=kind)
        description = open_checkpoint(directory).description
        assert description.task == task
        assert description.arguments.get("multi_label", False) == (kind == "multi_label_classification")
    classifier(directory, 2, problem_type="regression")
    with pytest.raises(ValueError, match="problem_type='regression' with 2 outputs cannot be represented"):
        open_checkpoint(directory)


@pytest.mark.parametrize("pooler", [True, False])
def test_a_classifier_without_architectures(directory, pooler):
    classifier(directory, 2, architectures=...)
    if not pooler:
        rewrite(directory, drop=["bert.pooler.dense.weight", "bert.pooler.dense.bias"])
    stored = open_checkpoint(directory)
    assert stored.description.task == ("classification" if pooler else "tagging")
    assert any("does not say which class" in remark for remark in stored.remarks)


def test_sentence_transformers_say_how_they_pool(directory):
    (directory / "1_Pooling").mkdir()
    modes = {"word_embedding_dimension": 12, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (directory / "1_Pooling/config.json").write_text(json.dumps(modes))
    (directory / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Normalize"}]))
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 7, "do_lower_case": False}))
    settings = load(directory, task="encoder").pretrained.settings
    assert (settings.task.pooling, settings.task.normalize, settings.sequence_length) == ("cls", True, 7)
    (directory / "1_Pooling/config.json").write_text(json.dumps({**modes, "pooling_mode_mean_tokens": True}))
    assert any("which kbert does not have" in line for line in open_checkpoint(directory).remarks)


def test_labels_that_are_numbers(directory):
    """As transformers writes them for somebody whose data have numbers."""
    classifier(directory, 2, id2label={"0": 1, "1": 2.5}, num_classes=None)  # the last is no field of a BERT's config
    assert open_checkpoint(directory).settings.task.labels == ("1", "2.5")
