"""What a Hugging Face directory says beside its weights: the config, labels, how sentences are pooled."""

import json

import numpy as np
import pytest
from helpers.hf_directory import edit, rewrite
from helpers.stored_models import load

import kbert
from kbert.weights.formats.huggingface.weights_file import open_huggingface_weights
from kbert.weights.open_checkpoint import open_checkpoint


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
        ({"hidden_size": 13}, "`num_attention_heads` must divide `hidden_size`"),
        ({"hidden_size": ...}, "does not say hidden_size"),
        ({"intermediate_size": 21}, "`intermediate_size` is 21, but .*model.safetensors has 20"),
        ({"vocab_size": 30}, r"`vocab_size` is 30, but .* has 29 \(.*word_embeddings.weight of shape \(29, 12\)"),
        ({"num_hidden_layers": 3}, "config.json: `num_hidden_layers` is 3, but .*model.safetensors has 2"),
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
    assert "multi_label" not in open_checkpoint(directory).description.arguments


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
    (directory / "1_Pooling/config.json").write_text(json.dumps({**modes, "pooling_mode_mean_tokens": True}))
    assert any("which kbert does not have" in line for line in open_checkpoint(directory).remarks)


def test_labels_that_are_numbers(directory):
    """As transformers writes them for somebody whose data have numbers."""
    classifier(directory, 2, id2label={"0": 1, "1": 2.5}, num_classes=None)  # the last is no field of a BERT's config
    assert open_checkpoint(directory).settings.task.labels == ("1", "2.5")


def test_the_pooler_that_is_not_used_is_named(directory, caplog):
    caplog.set_level("INFO", logger="kbert")
    kbert.load_pretrained(directory, task="span")
    assert "bert.pooler: unused (2 variables)" in caplog.text
