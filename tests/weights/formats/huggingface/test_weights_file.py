"""The files of a Hugging Face directory: shards, files of other names, and every way to be damaged."""

import json
import shutil

import numpy as np
import pytest
from helpers.damage import cut, put, replaced
from helpers.hf_directory import GOLDEN, copy_golden, rewrite
from helpers.stored_models import assert_same_weights, load
from safetensors.numpy import load_file, save_file

import kbert
from kbert.weights.open_checkpoint import open_checkpoint

WEIGHTS, UNREADABLE = "model.safetensors", "cannot be read as safetensors"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 133466304\n"
DAMAGE = {
    "truncated": (cut(WEIGHTS, -100), f"{UNREADABLE}, it is truncated.*not fully covered"),
    "truncated header": (cut(WEIGHTS, 500), f"{UNREADABLE}, it is truncated.*invalid header length"),
    "empty": (put(WEIGHTS, ""), "is empty"),
    "git lfs": (put(WEIGHTS, LFS), "Git LFS pointer"),
    "a web page": (put(WEIGHTS, "<!doctype html><html>404</html>"), f"{WEIGHTS}' {UNREADABLE}.*header too large"),
    "no header": (
        put(WEIGHTS, (20).to_bytes(8, "little") + b"x" * 40),
        f"{WEIGHTS}' {UNREADABLE}.*invalid JSON in header",
    ),
    "overlapping sizes": (
        replaced(WEIGHTS, b'"shape":[12]', b'"shape":[13]'),
        f"{WEIGHTS}' {UNREADABLE}.*invalid shape",
    ),
    "unknown type": (replaced(WEIGHTS, b'"F32"', b'"F8!"'), f"{WEIGHTS}' {UNREADABLE}.*F8!"),
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


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_before_anything_is_built(directory, kind, monkeypatch):
    damage, message = DAMAGE[kind]
    damage(directory)
    monkeypatch.setattr(kbert.BertEncoder, "__init__", None)
    with pytest.raises(ValueError, match=message):
        load(directory)


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
    """Of several that lie there it is the one read; its name decides nothing, its content does."""
    assert open_checkpoint(GOLDEN / "hf_safetensors/model.safetensors").description.task == "pretraining"
    assert open_checkpoint(GOLDEN / "hf_safetensors/config.json").description.task == "pretraining"
    shutil.copy(GOLDEN / "hf_old_bin/pytorch_model.bin", directory / "epoch_3.pt")
    shutil.copy(GOLDEN / "hf_bin/pytorch_model.bin", directory / "weights")
    rewrite(directory, add={"bert.pooler.dense.bias": np.ones(12)})
    assert set(load(directory).encoder.pooler.get_weights()[1]) == {1.0}
    for name in ("epoch_3.pt", "weights"):
        stored = open_checkpoint(directory / name)
        assert stored.tensors.path == directory / name and stored.description.task == "pretraining"
        assert set(stored.tensors.read("bert.pooler.dense.bias")) != {1.0}
    (directory / "notes.txt").write_text("nothing")
    with pytest.raises(ValueError, match="none of their files"):
        open_checkpoint(directory / "notes.txt")


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_integers_are_no_weights(directory, dtype):
    tensors = load_file(directory / "model.safetensors")
    save_file(tensors | {"bert.pooler.dense.bias": np.zeros(12, dtype)}, directory / "model.safetensors")
    with pytest.raises(ValueError, match=rf"weights that are integers: bert.pooler.dense.bias \({dtype}\)"):
        open_checkpoint(directory)
