"""Checkpoints of every format: each way to be damaged is named before anything is built.

Other sizes in the config: tests/faults/test_checkpoint_sizes.py.
"""

import functools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from golden.google_make import VOCABULARY as GOLDEN_VOCABULARY
from helpers.hf_directory import GOLDEN, edit, rewrite
from helpers.stored_models import load, make_model, save
from helpers.tiny_bert import VOCABULARY

from kbert.weights.description import ModelDescription
from kbert.weights.files.tf_checkpoint_file import TFCheckpointFile
from kbert.weights.source import open_checkpoint

# Ways to damage a file of a directory, each a function of the directory's path.


def cut(name, end):
    """The file up to a byte, counted from its end where it is negative."""
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:end])


def put(name, content):
    """Another content."""
    return lambda path: (path / name).write_bytes(content.encode() if isinstance(content, str) else content)


def put_lines(name, lines):
    return put(name, "".join(f"{line}\n" for line in lines))


def replaced(name, old, new):
    """Other bytes where some stand first."""
    return lambda path: (path / name).write_bytes((path / name).read_bytes().replace(old, new, 1))


def deleted(name):
    return lambda path: (path / name).unlink()


def edited(name, **changes):
    """Other entries of a JSON file; ... removes one."""
    return lambda path: edit(path / name, **changes)


def with_entry(name, entry, **changes):
    """Changes within an object of a JSON file."""

    def change(path):
        content = json.loads((path / name).read_text())[entry] | changes
        edit(path / name, **{entry: {name: value for name, value in content.items() if value is not ...}})

    return change


def flip(path):
    content = bytearray((path / WEIGHTS).read_bytes())
    content[len(content) // 2] ^= 1
    (path / WEIGHTS).write_bytes(content)


def with_tensors(change):
    """Changes the tensors of Google's checkpoint, by a function of the dict of them."""

    def damage(path):
        prefix = path / "bert_model.ckpt"
        file = TFCheckpointFile(prefix)
        values = {name: file.read(name) for name in file.tensors}
        change(values)
        tensors = [tf.constant(value) for value in values.values()]
        tf.raw_ops.SaveV2(
            prefix=str(prefix), tensor_names=list(values), shape_and_slices=[""] * len(values), tensors=tensors
        )

    return damage


def rename_all(values):
    for name in list(values):
        values[f"m/{name}"] = values.pop(name)


GOOGLE_CONFIG, DATA = "bert_config.json", "bert_model.ckpt.data-00000-of-00001"
GOOGLE = {
    "truncated data": (cut(DATA, -4000), r"named in the index take \d+ bytes. Received: \d+ bytes, in \[.*data-0"),
    "truncated index": (cut("bert_model.ckpt.index", -100), "bert_model.ckpt.: the index cannot be read"),
    "no data": (deleted(DATA), r"named in the index take \d+ bytes. Received: 0 bytes, in \[\]"),
    "no config": (deleted(GOOGLE_CONFIG), "Expected bert_config.json"),
    "broken config": (cut(GOOGLE_CONFIG, -9), "bert_config.json.*: not JSON"),
    "no sizes in config": (edited(GOOGLE_CONFIG, hidden_size=...), "does not say hidden_size"),
    "impossible config": (
        edited(GOOGLE_CONFIG, num_attention_heads=5),
        f"{GOOGLE_CONFIG}: `num_attention_heads` must divide",
    ),
    "unknown activation": (edited(GOOGLE_CONFIG, hidden_act="swish"), "hidden_act='swish'"),
    "albert": (edited(GOOGLE_CONFIG, num_hidden_groups=1), "an ALBERT"),
    "short vocabulary": (put_lines("vocab.txt", GOLDEN_VOCABULARY[:-2]), r"\(29\). Received: 27 tokens"),
    "long vocabulary": (put_lines("vocab.txt", [*GOLDEN_VOCABULARY, "more"]), r"\(29\). Received: 30 tokens"),
    "another model": (with_tensors(rename_all), "holds no BERT in Google's names"),
    "missing variable": (
        with_tensors(lambda values: values.pop("bert/encoder/layer_1/output/dense/kernel")),
        "lacks 1 variables of the encoder: encoder_block_1/feed_forward/output/kernel",
    ),
}
WEIGHTS, UNREADABLE = "model.safetensors", "model.safetensors' cannot be read"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 133466304\n"
HUGGINGFACE = {
    "truncated": (cut(WEIGHTS, -100), f"{UNREADABLE}.*not fully covered. The file is truncated"),
    "truncated header": (cut(WEIGHTS, 500), f"{UNREADABLE}.*invalid header length"),
    "empty": (put(WEIGHTS, ""), f"{UNREADABLE}.*header too small. The file is truncated"),
    "git lfs": (put(WEIGHTS, LFS), "Git LFS pointer"),
    "a web page": (put(WEIGHTS, "<!doctype html><html>404</html>"), f"{UNREADABLE}.*header too large"),
    "no header": (put(WEIGHTS, (20).to_bytes(8, "little") + b"x" * 40), f"{UNREADABLE}.*invalid JSON in header"),
    "overlapping sizes": (replaced(WEIGHTS, b'"shape":[12]', b'"shape":[13]'), f"{UNREADABLE}.*invalid shape"),
    "unknown type": (replaced(WEIGHTS, b'"F32"', b'"F8!"'), f"{UNREADABLE}.*F8!"),
    "broken config": (put("config.json", '{"model_type": "bert",'), "config.json.*: not JSON"),
    "broken tokenizer": (put("tokenizer.json", "[]"), "tokenizer.json: expected a JSON object"),
    "missing variable": (
        lambda path: rewrite(path, drop=["bert.encoder.layer.1.output.dense.bias"]),
        "lacks 1 variables of the encoder: encoder_block_1/feed_forward/output/bias",
    ),
    "two names": (
        lambda path: rewrite(path, add={"embeddings.LayerNorm.gamma": np.zeros(12)}),
        "two names of the same variable",
    ),
}
CHANGED = "has another SHA-256 than kbert.json.*delete kbert.json to load"
OWN = {
    "no vocabulary": (deleted("vocab.txt"), "vocab.txt is missing, but listed in kbert.json"),
    "truncated weights": (cut(WEIGHTS, -100), f"{WEIGHTS} {CHANGED}"),
    "changed weights": (flip, f"{WEIGHTS} {CHANGED}"),
    "other vocabulary": (put_lines("vocab.txt", reversed(VOCABULARY)), f"vocab.txt {CHANGED}"),
    "vocabulary size": (
        edited("config.json", vocab_size=99),
        f"config.json: `vocab_size` is 99, but .*{WEIGHTS} has 25",
    ),
    "missing key": (with_entry("config.json", "kbert", encoder=...), "config.json: `kbert` lacks 'encoder'"),
    "unknown field": (
        with_entry("config.json", "kbert", task={"name": "classification", "lables": ["a"]}),
        r"config.json: .*unknown fields \['lables'\]",
    ),
    "unknown task": (with_entry("config.json", "kbert", task={"name": "parsing"}), "config.json: .*'parsing'"),
    "unknown position embedding": (
        with_entry("config.json", "kbert", position_embedding="rotary"),
        "config.json: .*position_embedding",
    ),
    "no key": (edited("config.json", kbert=..., model_type="kbert"), "model_type \"bert\". Received: 'kbert'"),
    "broken config": (cut("config.json", -20), "config.json.*: not JSON"),
    "broken kbert.json": (put("kbert.json", "{}"), "kbert.json is damaged: it lacks `sha256`. Delete it"),
}
DAMAGE = {"google": GOOGLE, "huggingface": HUGGINGFACE, "own": OWN}
CASES = [(format, kind) for format, kinds in DAMAGE.items() for kind in kinds]
MISSING = {"no data", "no config"}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Function of a format: a checkpoint without damage."""

    @functools.cache
    def checkpoint(format):
        if format in ("google", "huggingface"):
            return GOLDEN / {"google": "google_pretraining", "huggingface": "hf_safetensors"}[format]
        path = tmp_path_factory.mktemp("sound") / format
        save(make_model("classification"), path, "huggingface")
        return path

    return checkpoint


@pytest.mark.parametrize("format,kind", CASES)
def test_damage_is_named_before_anything_is_built(sound, format, kind, tmp_path, monkeypatch):
    damage, message = DAMAGE[format][kind]
    path = tmp_path / "it"
    shutil.copytree(sound(format), path)
    damage(path)
    monkeypatch.setattr(ModelDescription, "build", None)  # building would fail otherwise
    with pytest.raises(FileNotFoundError if kind in MISSING else ValueError, match=message):
        load(path)


@pytest.mark.parametrize("format", DAMAGE)
def test_a_wrong_value_in_json_is_no_error_or_one_that_names_the_directory(sound, format, tmp_path):
    path = tmp_path / "it"
    shutil.copytree(sound(format), path)
    errors = 0
    for file in path.glob("*.json"):
        whole = json.loads(file.read_text())
        for inner in [whole, *(value for value in whole.values() if isinstance(value, dict))]:
            for name, value in list(inner.items()):
                for inner[name] in (None, -1, "x", ["a", 3], {"a": 1}):
                    file.write_text(json.dumps(whole))
                    try:
                        open_checkpoint(path)
                    except (ValueError, FileNotFoundError) as error:
                        assert str(path) in str(error)
                        errors += 1
                inner[name] = value
        file.write_text(json.dumps(whole))
    assert errors > 20


def test_values_that_are_no_numbers(sound, tmp_path):
    path = tmp_path / "it"
    shutil.copytree(sound("google"), path)
    with_tensors(lambda values: values["bert/pooler/dense/bias"].fill(np.nan))(path)
    with pytest.raises(ValueError, match="bert/pooler/dense/bias.*not finite"):
        load(path)
    assert np.all(np.isfinite(load(sound("google")).get_weights()[0]))  # nothing is left of the model that was begun


def test_a_flipped_bit_in_googles_is_noticed(sound, tmp_path):
    """TensorFlow keeps a checksum of every tensor."""
    path = tmp_path / "it"
    shutil.copytree(sound("google"), path)
    content = bytearray((path / DATA).read_bytes())
    for place in range(0, len(content), 40):
        content[place] ^= 1
    (path / DATA).write_bytes(content)
    with pytest.raises(ValueError, match="the tensor '.*' cannot be read"):
        load(path)


def test_a_checkpoint_of_objects_is_no_checkpoint_of_names(sound, tmp_path):
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(tmp_path / "bert_model.ckpt"))
    shutil.copy(sound("google") / GOOGLE_CONFIG, tmp_path)
    with pytest.raises(ValueError, match="no BERT in Google's names.*OBJECT_GRAPH.*To load a kbert run"):
        load(tmp_path)


def test_damaged_settings_beside_a_checkpoint_are_named_and_may_be_deleted(tmp_path):
    save(make_model("classification"), tmp_path / "out", "google")
    settings = tmp_path / "out/kbert_settings.json"
    settings.write_text('{"lables": []}')
    with pytest.raises(ValueError, match="kbert_settings.json is damaged.*lables"):
        load(tmp_path / "out")
    settings.unlink()
    pretrained = load(tmp_path / "out").pretrained
    assert pretrained.settings.task.labels is None and pretrained.tokenizer.vocabulary == VOCABULARY
