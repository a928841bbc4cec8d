"""Every model in every format that holds it comes back bit for bit; what a format cannot hold is refused."""

import json

import pytest
from helpers.parity import measure_parity
from helpers.slow_but import slow_but
from helpers.stored_models import MODELS, assert_same_model, assert_same_weights, load, make_model, save
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert

REFUSED = [
    ("google", "encoder", {"activation": "gelu_erf"}, "no name for it, only for gelu_tanh"),
    (
        "google",
        "encoder",
        {"layer_norm_epsilon": 1e-5},
        "layer_norm_epsilon=1e-05: its models always have 1e-12",
    ),
    ("google", "encoder without pooler", {}, "without pooler: its BERT always has one"),
    ("google", "masked_lm", {}, "without pooler"),
    ("google", "pretraining, untied", {}, "the untied decoder"),
    ("google", "masked_lm as KerasHub's", {}, "masked-LM head with activation and LayerNorm epsilon"),
    ("google", "tagging", {}, "the tagger head: its models have none"),
    ("google", "multiple_choice", {}, "the multiple choice head"),
    ("google", "similarity", {}, "a similarity model, which would be read as an encoder"),
]


@pytest.mark.parametrize("format,name,fields,reason", REFUSED)
def test_what_a_format_cannot_hold_is_refused(format, name, fields, reason, tmp_path):
    with pytest.raises(ValueError, match=f'format="{format}".*{reason}'):
        save(make_model(name, **fields), tmp_path / "out", format)
    assert not list(tmp_path.iterdir())


def files(path):
    """Without kbert.json, which has the time."""
    files = (file for file in path.rglob("*") if file.is_file() and file.name != "kbert.json")
    return {file.relative_to(path): file.read_bytes() for file in files}


def check_round_trip(format, name, tmp_path, **fields):
    """Saves and loads; returns what was loaded."""
    model = make_model(name, **fields)
    save(model, tmp_path / "out", format)
    loaded = load(tmp_path / "out")
    assert_same_model(loaded, model)
    return loaded


# A next-sentence model and a regressor have the variables of a pre-training model and a classifier.
@pytest.mark.parametrize(
    "name",
    slow_but(
        ("encoder", "pretraining", "masked_lm with pooler", "classification", "span with pooler"),
        (
            "encoder",
            "pretraining",
            "masked_lm with pooler",
            "next_sentence",
            "classification",
            "regression",
            "span with pooler",
        ),
    ),
)
def test_google(name, tmp_path):
    activation = {"encoder": "relu", "classification": "tanh"}.get(name, "gelu_tanh")
    fields = {"hidden_dropout": 0.3, "attention_dropout": 0.2, "num_segments": 3}
    loaded = check_round_trip("google", name, tmp_path, activation=activation, **fields)
    assert max(measure_parity(loaded, tmp_path / "out").differences.values()) < 1e-5
    save(loaded, tmp_path / "again", "google")
    assert files(tmp_path / "out") == files(tmp_path / "again")


# The others have the variables of these, or a head of one linear layer as these.
QUICK = ("encoder", "pretraining, untied", "masked_lm", "classification", "span")


@pytest.mark.parametrize("name", slow_but(QUICK, MODELS))
def test_hugging_face(name, tmp_path):
    activation = {"encoder": "silu", "span": "relu", "tagging": "tanh", "regression": "gelu_erf"}.get(name, "gelu_tanh")
    fields = {"hidden_dropout": 0.3, "attention_dropout": 0.2, "layer_norm_epsilon": 1e-7, "num_segments": 3}
    fields |= {"activation": activation, "causal": name == "masked_lm", "initializer_stddev": 0.05}
    loaded = check_round_trip("huggingface", name, tmp_path, **fields)
    save(loaded, tmp_path / "again", "huggingface")
    assert files(tmp_path / "out") == files(tmp_path / "again")


def test_a_left_to_right_model_of_a_pretraining(tmp_path):
    check_round_trip("huggingface", "masked_lm", tmp_path, causal=True, pooled_token="last")  # as kbert.pretrain's
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["architectures"] == ["BertLMHeadModel"] and config["is_decoder"] is True


def test_a_pooler_that_has_no_part_can_be_left_out(tmp_path):
    save(make_model("span with pooler"), tmp_path / "google", "google")
    model = load(tmp_path / "google", pooler=False)
    assert {row.source for row in model.pretrained.report.unused} == {
        "bert/pooler/dense/kernel",
        "bert/pooler/dense/bias",
    }
    kbert.save_pretrained(model, tmp_path / "hf", format="huggingface")
    assert_same_weights(load(tmp_path / "hf"), model)


def test_a_classifier_with_one_label_stays_one_or_is_refused(tmp_path):
    model = kbert.BertClassifier(tiny_config(), num_labels=1)
    save(model, tmp_path / "hf", "huggingface")
    assert load(tmp_path / "hf").task == "classification"
    with pytest.raises(ValueError, match='format="google" cannot hold a classifier with one label'):
        save(model, tmp_path / "google", "google")
    pytest.importorskip("keras_hub")
    with pytest.raises(ValueError, match='format="kerashub" cannot hold a classifier with one label'):
        kbert.weights.to_keras_hub(model, tiny_tokenizer())


@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_a_multi_label_classifier_stays_one_or_is_refused(format, tmp_path):
    model = randomise(kbert.BertClassifier(tiny_config(), num_labels=3, multi_label=True))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["a", "b", "c"], thresholds=[0.2, 0.5, 0.9])
    if format == "google":
        with pytest.raises(ValueError, match=f'format="{format}" cannot hold a multi-label classifier'):
            kbert.save_pretrained(pipeline, tmp_path / "it", format=format)
        assert not list(tmp_path.iterdir())
        return
    kbert.save_pretrained(pipeline, tmp_path / "it", format=format)
    loaded = load(tmp_path / "it")
    task = loaded.pretrained.settings.task
    assert loaded.multi_label and task.labels == ("a", "b", "c") and task.thresholds == (0.2, 0.5, 0.9)
    assert_same_weights(loaded, model)
