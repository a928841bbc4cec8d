"""Every model in every format that holds it comes back bit for bit; what a format cannot hold is refused."""

import json

import pytest
from helpers.stored_models import MODELS, assert_same_model, assert_same_weights, load, make_model, save
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.weights.parity import measure_parity

REFUSED = [
    ("google", "encoder", {"activation": "gelu_erf"}, "no name for it, only for gelu_tanh"),
    ("google", "encoder", {"causal": True}, "cannot hold causal=True"),
    ("google", "encoder", {"layer_norm_epsilon": 1e-5}, "cannot hold layer_norm_epsilon=1e-05.*means 1e-12"),
    ("google", "encoder without pooler", {}, "without pooler: BertModel in its modeling.py always has one"),
    ("google", "masked_lm", {}, "without pooler"),
    ("google", "pretraining, untied", {}, "untied decoder"),
    ("google", "masked_lm as KerasHub's", {}, "masked-LM head with activation and LayerNorm epsilon"),
    ("google", "tagging", {}, "tagging head"),
    ("google", "multiple_choice", {}, "multiple-choice head"),
    ("huggingface", "encoder without pooler", {}, "without pooler: its BertModel has one"),
    ("huggingface", "masked_lm with pooler", {}, "masked_lm model .* has a pooler: its BertForMaskedLM has none"),
    ("huggingface", "span with pooler", {}, "span model .* has a pooler: its BertForQuestionAnswering has none"),
    ("huggingface", "masked_lm as KerasHub's", {}, "masked-LM head with activation and LayerNorm epsilon"),
    ("huggingface", "encoder", {"causal": True, "pooled_token": "last"}, "cannot hold pooled_token='last'"),
    ("kerashub", "encoder", {"activation": "gelu_erf"}, "activation='gelu_erf'.*means 'gelu_tanh' always"),
    ("kerashub", "encoder", {"hidden_dropout": 0.2}, "one number `dropout`"),
    ("kerashub", "encoder without pooler", {}, "without pooler: BertBackbone always has one"),
    ("kerashub", "masked_lm with pooler", {}, r"\('gelu_erf', 1e-05\). Received: .*\('gelu_tanh', 1e-12\)"),
    ("kerashub", "pretraining", {}, "next-sentence head"),
    ("kerashub", "next_sentence", {}, "next-sentence head"),
    ("kerashub", "span with pooler", {}, "span head"),
    ("kerashub", "tagging", {}, "tagging head"),
    ("kerashub", "multiple_choice", {}, "multiple-choice head"),
    ("kerashub", "masked_lm, untied", {}, "untied decoder"),
]


@pytest.mark.parametrize("format,name,fields,reason", REFUSED)
def test_what_a_format_cannot_hold_is_refused(format, name, fields, reason, tmp_path):
    if format == "kerashub":
        pytest.importorskip("keras_hub")
    with pytest.raises(ValueError, match=f'format="{format}".*{reason}'):
        save(make_model(name, num_layers=1, **fields), tmp_path / "out", format)
    assert not list(tmp_path.iterdir())


NOT_HELD = {name for format, name, fields, _ in REFUSED if format == "huggingface" and not fields}
# Format → the models of the suite, and the others: they have the variables of these, or a head of one linear layer.
HELD = {
    "kbert": (["encoder without pooler", "pretraining, untied", "classification"], MODELS),
    "google": (
        ["pretraining", "classification", "span with pooler"],
        ["encoder", "masked_lm with pooler", "next_sentence", "regression"],
    ),
    "huggingface": (["encoder", "pretraining, untied", "masked_lm"], [n for n in MODELS if n not in NOT_HELD]),
    "kerashub": (["masked_lm as KerasHub's"], ["encoder", "classification", "regression"]),
}
ACTIVATIONS = {"kbert": "gelu_erf", "google": "relu", "huggingface": "silu", "kerashub": "gelu_tanh"}


@pytest.mark.parametrize(
    "format,name",
    [
        pytest.param(format, name, marks=() if name in quick else pytest.mark.slow)
        for format, (quick, others) in HELD.items()
        for name in dict.fromkeys([*quick, *others])
    ],
)
def test_a_model_comes_back(format, name, tmp_path):
    fields = {"hidden_dropout": 0.2, "attention_dropout": 0.2, "num_segments": 3, "activation": ACTIVATIONS[format]}
    fields["num_layers"] = 2 if name.startswith("pretraining") else 1
    if format == "huggingface":
        fields |= {"layer_norm_epsilon": 1e-7, "causal": name == "masked_lm", "initializer_stddev": 0.05}
    if format == "kerashub":
        pytest.importorskip("keras_hub")
    model = make_model(name, **fields)
    save(model, tmp_path / "out", format)
    loaded = load(tmp_path / "out")
    assert_same_model(loaded, model)
    if format in ("google", "kerashub"):
        report = measure_parity(loaded, tmp_path / "out")
        assert max(report.differences.values()) < 1e-5
        assert set(report.differences) >= {f"hidden_states/{i}" for i in range(model.config.num_layers + 1)}
        assert model.task == "encoder" or set(report.differences) >= set(model.output)
    if format in ("google", "huggingface"):
        save(loaded, tmp_path / "again", format)
        for file in (tmp_path / "out").iterdir():
            assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file


def test_a_left_to_right_model_of_a_pretraining(tmp_path):
    model = make_model("masked_lm", causal=True, pooled_token="last", num_layers=1)  # as kbert.pretrain's
    save(model, tmp_path / "out", "huggingface")
    assert_same_model(load(tmp_path / "out"), model)
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["architectures"] == ["BertLMHeadModel"] and config["is_decoder"] is True


def test_a_multi_label_classifier_stays_one_or_is_refused(tmp_path):
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1), num_labels=3, multi_label=True))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["a", "b", "c"], thresholds=[0.2, 0.5, 0.9])
    for format in ("google", "kerashub"):
        with pytest.raises(ValueError, match=f'format="{format}" cannot hold a multi-label classifier'):
            kbert.save_pretrained(pipeline, tmp_path / format, format=format)
    for format in ("kbert", "huggingface"):
        kbert.save_pretrained(pipeline, tmp_path / format, format=format)
        loaded = load(tmp_path / format)
        task = loaded.pretrained.settings.task
        assert loaded.multi_label and task.labels == ("a", "b", "c") and task.thresholds == (0.2, 0.5, 0.9)
        assert_same_weights(loaded, model)
    config = tmp_path / "huggingface/config.json"  # thresholds are of the labels that they were stored with
    config.write_text(json.dumps(json.loads(config.read_text()) | {"id2label": {"0": "x", "1": "y", "2": "z"}}))
    task = load(tmp_path / "huggingface").pretrained.settings.task
    assert task.labels == ("x", "y", "z") and task.thresholds is None
    assert {path.name for path in tmp_path.iterdir()} == {"kbert", "huggingface"}
