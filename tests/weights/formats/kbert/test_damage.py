"""kbert directories: every way in which one, or a call, can be wrong."""

import json

import pytest
from helpers.hf_directory import edit
from helpers.tiny_bert import VOCABULARY, tiny_config

import kbert
from kbert.weights.description import ModelDescription


def damage(kind, path):
    config = path / "config.json"
    if kind == "missing file":
        (path / "vocab.txt").unlink()
    elif kind == "truncated weights":
        file = path / "model.weights.h5"
        file.write_bytes(file.read_bytes()[:-100])
    elif kind == "changed weights":
        content = bytearray((path / "model.weights.h5").read_bytes())
        content[len(content) // 2] ^= 1
        (path / "model.weights.h5").write_bytes(content)
    elif kind == "other vocabulary":
        (path / "vocab.txt").write_text("\n".join(reversed(VOCABULARY)) + "\n")
    elif kind == "vocabulary size":
        edit(config, architecture={**json.loads(config.read_text())["architecture"], "vocabulary_size": 99})
    elif kind == "unknown key":
        edit(config, lables=["a"])
    elif kind == "unknown architecture key":
        edit(config, architecture={"hiden_dim": 12})
    elif kind == "unknown task":
        edit(config, task="parsing")
    elif kind == "broken config":
        config.write_text(config.read_text()[:-20])
    elif kind == "newer version":
        edit(config, format_version=3)
    elif kind == "broken manifest":
        (path / "manifest.json").write_text("{}")
    elif kind == "not a directory of ours":
        edit(config, format="other")


@pytest.mark.parametrize(
    "kind,error,message",
    [
        ("missing file", FileNotFoundError, r"Missing: \['vocab.txt'\]"),
        ("truncated weights", ValueError, r"model.weights.h5 is damaged: expected \d+ bytes. Received: \d+"),
        ("changed weights", ValueError, "model.weights.h5 is damaged or was changed"),
        ("other vocabulary", ValueError, "vocab.txt is damaged or was changed"),
        ("vocabulary size", ValueError, "config.json: `vocabulary_size` is 99, but .*model.weights.h5 has 25"),
        ("unknown key", ValueError, r"config.json: .*unknown fields \['lables'\]"),
        ("unknown architecture key", ValueError, r"config.json: .*unknown fields \['hiden_dim'\]"),
        ("unknown task", ValueError, "config.json: .*Received: 'parsing'"),
        ("broken config", ValueError, "config.json.*: not JSON"),
        ("newer version", ValueError, "format_version 2. Received: 3"),
        ("broken manifest", ValueError, "manifest.json is damaged"),
        ("not a directory of ours", ValueError, "Expected a kbert directory"),
    ],
)
def test_damaged_directories_are_named_before_anything_is_built(pretrained, monkeypatch, kind, error, message):
    path, _ = pretrained
    damage(kind, path)
    monkeypatch.setattr(ModelDescription, "build", None)  # building would fail otherwise
    with pytest.raises(error, match=message):
        kbert.load_pretrained(path)


def test_a_config_may_be_edited(pretrained):
    path, _ = pretrained
    task = json.loads((path / "config.json").read_text())["task"]
    edit(path / "config.json", task=task | {"top_k": 3})
    assert kbert.load_pretrained(path).pretrained.settings.task.top_k == 3


def test_wrong_arguments(pretrained, tmp_path):
    path, _ = pretrained
    for overrides, message in [
        ({"task": "parsing"}, "must be one of.*Received: 'parsing'"),
        ({"hidden_dim": 24}, "hidden_dim.*cannot be overridden"),
        ({"num_labels": 2}, r"unknown arguments \['num_labels'\]"),
        ({"task": "classification", "num_labels": 3, "labels": ["a", "b"]}, "expected 3 labels, as many as"),
        ({"task": "classification", "labels": ["a", "a"]}, "must differ"),
        ({"task": "classification", "labels": "ab"}, "list of strings"),
    ]:
        with pytest.raises(ValueError, match=message):
            kbert.load_pretrained(path, **overrides)
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
