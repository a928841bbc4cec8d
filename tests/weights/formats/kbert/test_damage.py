"""kbert directories: every way in which one, or a call, can be wrong."""

import functools
import json

import pytest
from helpers.damage import cut, deleted, edited, put, put_lines
from helpers.hf_directory import edit
from helpers.tiny_bert import VOCABULARY, tiny_config
from helpers.wrong_values import wrong_values

import kbert
from kbert.weights.description import ModelDescription


def flip(path):
    content = bytearray((path / "model.weights.h5").read_bytes())
    content[len(content) // 2] ^= 1
    (path / "model.weights.h5").write_bytes(content)


def enlarge(path):
    architecture = json.loads((path / "config.json").read_text())["architecture"]
    edit(path / "config.json", architecture={**architecture, "vocabulary_size": 99})


CONFIG, FILE = "config.json", "model.weights.h5"
DAMAGE = {
    "missing file": (deleted("vocab.txt"), r"Missing: \['vocab.txt'\]"),
    "truncated weights": (cut(FILE, -100), f"{FILE} is damaged: expected \\d+ bytes. Received: \\d+"),
    "changed weights": (flip, f"{FILE} is damaged or was changed"),
    "other vocabulary": (put_lines("vocab.txt", reversed(VOCABULARY)), "vocab.txt is damaged or was changed"),
    "vocabulary size": (enlarge, f"config.json: `vocabulary_size` is 99, but .*{FILE} has 25"),
    "unknown key": (edited(CONFIG, lables=["a"]), r"config.json: .*unknown fields \['lables'\]"),
    "unknown architecture key": (
        edited(CONFIG, architecture={"hiden_dim": 12}),
        r"config.json: .*unknown fields \['hiden_dim'\]",
    ),
    "unknown task": (edited(CONFIG, task="parsing"), "config.json: .*Received: 'parsing'"),
    "broken config": (cut(CONFIG, -20), "config.json.*: not JSON"),
    "newer version": (edited(CONFIG, format_version=3), "format_version 2. Received: 3"),
    "broken manifest": (put("manifest.json", "{}"), "manifest.json is damaged"),
    "not a directory of ours": (edited(CONFIG, format="other"), "Expected a kbert directory"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_directories_are_named_before_anything_is_built(pretrained, monkeypatch, kind):
    (path, _), (damage, message) = pretrained, DAMAGE[kind]
    damage(path)
    monkeypatch.setattr(ModelDescription, "build", None)  # building would fail otherwise
    with pytest.raises(FileNotFoundError if kind == "missing file" else ValueError, match=message):
        kbert.load_pretrained(path)


def test_a_config_may_be_edited(pretrained):
    path, _ = pretrained
    task = json.loads((path / "config.json").read_text())["task"]
    edit(path / "config.json", task=task | {"top_k": 3})
    assert kbert.load_pretrained(path).pretrained.settings.task.top_k == 3


def test_wrong_arguments(pretrained, tmp_path):
    wrong_values(
        functools.partial(kbert.load_pretrained, pretrained[0]),
        ({"task": "parsing"}, "must be one of.*Received: 'parsing'"),
        ({"hidden_dim": 24}, "hidden_dim.*cannot be overridden"),
        ({"num_labels": 2}, r"unknown arguments \['num_labels'\]"),
        ({"task": "classification", "num_labels": 3, "labels": ["a", "b"]}, "expected 3 labels, as many as"),
        ({"task": "classification", "labels": ["a", "a"]}, "must differ"),
        ({"task": "classification", "labels": "ab"}, "list of strings"),
    )
    with pytest.raises(FileNotFoundError, match="does not exist"):
        kbert.load_pretrained(tmp_path / "nowhere")


CASED = [token.capitalize() if token.isalpha() else token for token in VOCABULARY]


@pytest.mark.parametrize(
    "vocabulary,lowercase,message", [(CASED, True, "cased one"), (VOCABULARY, False, "uncased one")]
)
def test_the_classic_mistake_is_named(tmp_path, vocabulary, lowercase, message):
    tokenizer = kbert.BertTokenizer(vocabulary, lowercase=lowercase)
    with pytest.warns(UserWarning, match=message):
        kbert.save_pretrained(kbert.BertEncoder(tiny_config()), tmp_path / "model", tokenizer=tokenizer)
    with pytest.warns(UserWarning, match=message):
        kbert.load_pretrained(tmp_path / "model")


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("vocabulary,lowercase", [(CASED, False), (VOCABULARY, True)])
def test_no_warning_without_a_mistake(tmp_path, vocabulary, lowercase):
    tokenizer = kbert.BertTokenizer(vocabulary, lowercase=lowercase)
    kbert.save_pretrained(kbert.BertEncoder(tiny_config()), tmp_path / "model", tokenizer=tokenizer)
