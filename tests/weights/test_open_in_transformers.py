"""A kbert directory as it is in transformers and sentence-transformers, and what they saved in kbert."""

import json

import numpy as np
import pytest
from helpers.other_libraries import (
    AUTO,
    LENGTH,
    PAIRS,
    TEXTS,
    difference,
    from_transformers,
    make,
    open_there,
    relative,
    save,
    through_sentence_transformers,
    train_there,
)
from helpers.slow_but import slow_but
from helpers.stored_models import KERASHUB_HEAD
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")
pytestmark = pytest.mark.parity
TWO_CLASSES = {"num_labels": 2, "problem_type": "single_label_classification"}
WITHIN = 1e-5  # of the output's largest absolute value
LONG = "the film is bad paris is good very very bad film the capital of France"
_POOLER = {"pooler.dense.weight", "pooler.dense.bias"}
QUICK = ("pretraining", "classification", "similarity")


@pytest.mark.parametrize("name", slow_but(QUICK, AUTO))
def test_every_task_opens_as_it_is(name, tmp_path):
    model = make(name)
    theirs, tokenizer, info = open_there(model, save(model, tmp_path / "it"))
    missing = _POOLER if name == "similarity" else set()  # transformers' encoder always has a pooler
    assert set(info["missing_keys"]) == missing and not info["unexpected_keys"] and not info["mismatched_keys"], info
    assert next(theirs.parameters()).dtype.is_floating_point and theirs.dtype.itemsize == 4
    assert difference(model, theirs, tokenizer) < WITHIN


VARIANTS = {
    "causal": ("masked_lm", {"causal": True}),
    "sinusoidal positions": ("encoder", {"position_embedding": "sinusoidal"}),
    "one segment": ("classification", {"num_segments": 1}),
    "untied decoder": ("pretraining, untied", {}),
    "untied masked LM": ("masked_lm, untied", {}),
    "long position table": ("tagging", {"max_sequence_length": 700}),
    "epsilon": ("encoder", {"layer_norm_epsilon": 1e-5}),
    **{name: ("classification", {"activation": name}) for name in ("gelu_tanh", "relu", "silu", "tanh")},
}


@pytest.mark.parametrize("variant", slow_but(("causal", "sinusoidal positions", "one segment"), VARIANTS))
def test_every_variant_opens_as_it_is(variant, tmp_path):
    name, fields = VARIANTS[variant]
    model = make(name, **fields)
    theirs, tokenizer, info = open_there(model, save(model, tmp_path / "it", pair=fields.get("num_segments") != 1))
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    assert difference(model, theirs, tokenizer) < WITHIN


@pytest.mark.parametrize("name", ("encoder without pooler", "span with pooler", "masked_lm with pooler"))
def test_a_pooler_more_or_less(name, tmp_path):
    """transformers initializes one that is missing, and reports one that its class does not have."""
    model = make(name)
    theirs, tokenizer, info = open_there(model, save(model, tmp_path / "it"))
    missing, unexpected = (set(info[key]) for key in ("missing_keys", "unexpected_keys"))
    if "without" in name:
        assert (missing, unexpected) == (_POOLER, set())
    else:
        assert (missing, unexpected) == (set(), {f"bert.{key}" for key in _POOLER})
    assert difference(model, theirs, tokenizer) < WITHIN
    assert (kbert.load_pretrained(tmp_path / "it").encoder.pooler is None) == (model.encoder.pooler is None)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_the_size_is_computed_in_float32(dtype, tmp_path):
    model = make("classification")
    kbert.save_pretrained(model, tmp_path / "it", tokenizer=tiny_tokenizer(), storage_dtype=dtype)
    stored = kbert.load_pretrained(tmp_path / "it", sequence_length=LENGTH)
    theirs, tokenizer, _ = open_there(model, tmp_path / "it")
    assert theirs.dtype.itemsize == 4
    kbert.save_pretrained(stored, tmp_path / "short")
    tokenizer.model_max_length = LENGTH
    assert difference(stored, theirs, tokenizer) < WITHIN


# What transformers refuses, by name.

REFUSED = {
    "pooled at the last token": lambda: kbert.BertEncoder(tiny_config(causal=True, pooled_token="last")),
    "another activation in the head": lambda: kbert.BertPretrainer(tiny_config(), head_activation="relu"),
    "another epsilon in the head": lambda: kbert.BertPretrainer(tiny_config(), head_layer_norm_epsilon=1e-5),
    "KerasHub's head": lambda: kbert.BertPretrainer(tiny_config(), next_sentence=False, **KERASHUB_HEAD),
    "int8": lambda: _quantized(kbert.BertClassifier(tiny_config(), num_labels=3)),
}


def _quantized(model):
    model.quantize("int8")
    return model


@pytest.mark.parametrize("kind", REFUSED)
def test_what_it_would_compute_differently_is_refused(kind, tmp_path):
    model = randomise(REFUSED[kind]()) if kind != "int8" else REFUSED[kind]()
    save(model, tmp_path / "it")
    assert json.loads((tmp_path / "it/config.json").read_text())["model_type"] == "kbert"
    for name in ("AutoConfig", "AutoModel", AUTO[model.task]):
        with pytest.raises(ValueError, match="model type `?'?kbert"):
            getattr(transformers, name).from_pretrained(tmp_path / "it")
    loaded, batch = kbert.load_pretrained(tmp_path / "it"), {"token_ids": np.array([[2, 6, 7, 3]])}
    batch |= {"mask_positions": np.array([[1, 2]])} if "mask_positions" in model.input else {}
    for name, value in loaded(batch, training=False).items():
        np.testing.assert_array_equal(value, model(batch, training=False)[name])


def test_pooling_at_the_last_token_without_a_pooler_is_bert(tmp_path):
    """It then has no effect, so that transformers computes the same; kbert remembers it."""
    config = tiny_config(activation="gelu_erf", causal=True, pooled_token="last", max_sequence_length=40)
    model = randomise(kbert.BertPretrainer(config, next_sentence=False), scale=0.3)
    theirs, tokenizer, _ = open_there(model, save(model, tmp_path / "it"))
    assert difference(model, theirs, tokenizer) < WITHIN
    assert kbert.load_pretrained(tmp_path / "it").config == config


# Back again.


@pytest.mark.parametrize("name", slow_but(("encoder", "span"), AUTO))
def test_a_step_of_training_there_comes_back(name, tmp_path):
    assert from_transformers(name, tmp_path) < WITHIN
    first, again = (kbert.load_pretrained(tmp_path / place) for place in ("ours", "theirs"))
    assert again.pretrained.settings == first.pretrained.settings
    assert again.pretrained.tokenizer.settings() == first.pretrained.tokenizer.settings()
    report = again.pretrained.report
    unused = {row.source for row in report.unused}
    assert not report.newly_initialised and unused == (_POOLER if name == "similarity" else set())
    assert again.config == first.config and again.get_config().keys() == first.get_config().keys()
    moved = [np.abs(a - b).max() for a, b in zip(first.get_weights(), again.get_weights(), strict=True)]
    assert max(moved) > 1e-4  # it did train


def test_pair_length_labels_and_thresholds_come_back(tmp_path):
    model = randomise(
        kbert.BertClassifier(tiny_config(activation="gelu_erf", max_sequence_length=300), 3, multi_label=True),
        scale=0.3,
    )
    options = {"labels": ["a", "b", "c"], "thresholds": [0.2, 0.5, 0.9], "pair": True, "sequence_length": 256}
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(max_word_length=200), **options)
    kbert.save_pretrained(pipeline, tmp_path / "ours")
    theirs, tokenizer, _ = open_there(model, tmp_path / "ours")
    assert tokenizer.model_max_length == 256 and theirs.config.problem_type == "multi_label_classification"
    train_there(theirs, tokenizer)
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save_pretrained(tmp_path / "theirs")
    again = kbert.build_pipeline(tmp_path / "theirs")
    assert again.settings() == pipeline.settings()
    pairs = [pair or "paris" for pair in PAIRS]  # its pipeline takes an empty one for none
    rows = {"text": TEXTS, "text_pair": pairs}
    found = again.predict(rows, verbose=0)["probabilities"]
    run = transformers.pipeline("text-classification", tmp_path / "theirs", top_k=None)
    for row, (text, pair) in zip(found, zip(TEXTS, pairs, strict=True), strict=True):
        scores = {answer["label"]: answer["score"] for answer in run({"text": text, "text_pair": pair})}
        assert relative(row, [scores[label] for label in "abc"]) < WITHIN


@pytest.mark.parametrize(
    "name, auto, options, task, labels",
    [
        ("classification", "SequenceClassification", {"num_labels": 5}, "classification", 5),
        ("classification", "SequenceClassification", {"num_labels": 1}, "regression", None),
        ("regression", "SequenceClassification", TWO_CLASSES, "classification", 2),
        ("encoder", "TokenClassification", {"id2label": {0: "O", 1: "B-X"}}, "tagging", 2),
        ("pretraining", "MaskedLM", {}, "masked_lm", None),
    ],
)
def test_another_head_there_is_another_task_here(name, auto, options, task, labels, tmp_path):
    """The key `kbert` still describes the head that kbert saved."""
    save(make(name), tmp_path / "ours")
    theirs = getattr(transformers, f"AutoModelFor{auto}").from_pretrained(
        tmp_path / "ours", ignore_mismatched_sizes=True, **options
    )
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    tokenizer.save_pretrained(tmp_path / "theirs")
    again = kbert.load_pretrained(tmp_path / "theirs")
    assert (again.task, again.pretrained.settings.sequence_length) == (task, LENGTH)
    if labels:
        assert again.num_labels == labels
    if "id2label" in options:
        assert again.pretrained.settings.task.labels == ("O", "B-X")
    batch = {"token_ids": np.array([[2, 6, 7, 3]])}
    batch |= {"mask_positions": np.array([[1, 2]])} if task == "masked_lm" else {}
    again(batch, training=False)
    assert not again.pretrained.report.newly_initialised and not again.pretrained.report.unused


def test_a_length_that_transformers_changed_comes_back(tmp_path):
    model = make("classification")
    theirs, tokenizer, _ = open_there(model, save(model, tmp_path / "ours", pair=False))
    tokenizer.model_max_length = 8
    for part in (theirs, tokenizer):
        part.save_pretrained(tmp_path / "theirs")
    run = transformers.pipeline("text-classification", tmp_path / "theirs", top_k=None, truncation=True)
    scores = {answer["label"]: answer["score"] for answer in run([LONG])[0]}
    answers = [kbert.build_pipeline(tmp_path / place).predict([LONG], verbose=0) for place in ("theirs", "ours")]
    same, other = (relative(each["probabilities"][0], [scores[f"label {i}"] for i in range(3)]) for each in answers)
    assert same < WITHIN and other > 0.01


@pytest.mark.parametrize("name", ["similarity", "encoder"])
def test_a_length_that_sentence_transformers_changed_comes_back(name, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    ours = save(make(name), tmp_path / "ours", pair=False)
    theirs = sentence_transformers.SentenceTransformer(str(ours), device="cpu")
    theirs.max_seq_length = 8
    theirs.save_pretrained(str(tmp_path / "theirs"))
    answers = [kbert.build_pipeline(tmp_path / place).predict([LONG], verbose=0) for place in ("theirs", "ours")]
    same, other = (relative(each["embedding"], theirs.encode([LONG])) for each in answers)
    assert same < WITHIN and other > 0.01


# Answers to texts.


def test_text_classification(tmp_path):
    model = make("classification")
    save(model, tmp_path / "it", pair=False)
    run = transformers.pipeline("text-classification", tmp_path / "it", top_k=None)
    answers = kbert.build_pipeline(tmp_path / "it").predict(TEXTS, verbose=0)
    for row, best, scores in zip(answers["probabilities"], answers["label"], run(TEXTS), strict=True):
        assert scores[0]["label"] == best
        by_label = {answer["label"]: answer["score"] for answer in scores}
        assert relative(row, [by_label[f"label {i}"] for i in range(3)]) < WITHIN


def test_fill_mask(tmp_path):
    save(make("masked_lm"), tmp_path / "it")
    text = "the film is [MASK]."
    answer = kbert.build_pipeline(tmp_path / "it", top_k=4).predict([text], verbose=0)
    found = transformers.pipeline("fill-mask", tmp_path / "it", top_k=4)(text)
    assert [row["token_str"] for row in found] == list(answer["tokens"][0][0])
    assert relative(answer["probabilities"][0][0], [row["score"] for row in found]) < WITHIN


def test_token_classification(tmp_path):
    save(make("tagging"), tmp_path / "it")
    run = transformers.pipeline("token-classification", tmp_path / "it")
    answer = kbert.build_pipeline(tmp_path / "it").predict(["the film is bad"], verbose=0)
    found = run("the film is bad")
    assert [row["entity"] for row in found] == list(answer["tags"][0][:4])
    assert relative(answer["scores"][0][:4], [row["score"] for row in found]) < WITHIN


@pytest.mark.parametrize("pooling, normalize", [("mean", True), ("max", False), ("cls", True)])
def test_sentence_transformers(pooling, normalize, tmp_path):
    pytest.importorskip("sentence_transformers")
    assert through_sentence_transformers(tmp_path, pooling, normalize) < WITHIN


def test_an_encoder_in_sentence_transformers(tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = make("encoder")
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), pooling="cls", sequence_length=LENGTH)
    kbert.save_pretrained(pipeline, tmp_path / "it")
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "it"), device="cpu").encode(TEXTS)
    assert relative(pipeline.predict(TEXTS, verbose=0)["embedding"], theirs) < WITHIN
