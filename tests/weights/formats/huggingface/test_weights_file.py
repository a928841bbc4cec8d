"""The files of a Hugging Face directory: shards, files of other names, and every way to be damaged."""

import json
import shutil

import numpy as np
import pytest
from helpers.hf_directory import GOLDEN, copy_golden, rewrite
from helpers.stored_models import assert_same_weights, load
from safetensors.numpy import load_file, save_file

import kbert
from kbert.weights.open_checkpoint import open_checkpoint


def damage(kind, path):
    weights = path / "model.safetensors"
    if kind == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif kind == "truncated header":
        weights.write_bytes(weights.read_bytes()[:500])
    elif kind == "empty":
        weights.write_bytes(b"")
    elif kind == "git lfs":
        weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 133466304\n")
    elif kind == "a web page":
        weights.write_text("<!doctype html><html>404</html>")
    elif kind == "no header":
        weights.write_bytes((20).to_bytes(8, "little") + b"x" * 40)
    elif kind == "overlapping sizes":
        weights.write_bytes(weights.read_bytes().replace(b'"shape":[12]', b'"shape":[13]', 1))
    elif kind == "unknown type":
        weights.write_bytes(weights.read_bytes().replace(b'"F32"', b'"F8!"', 1))
    elif kind == "broken config":
        (path / "config.json").write_text('{"model_type": "bert",')
    elif kind == "broken tokenizer":
        (path / "tokenizer.json").write_text("[]")
    elif kind == "missing variable":
        rewrite(path, drop=["bert.encoder.layer.1.output.dense.bias"])
    elif kind == "two names":
        rewrite(path, add={"embeddings.LayerNorm.gamma": np.zeros(12)})


@pytest.mark.parametrize(
    "kind,message",
    [
        ("truncated", "cannot be read as safetensors, it is truncated.*not fully covered"),
        ("truncated header", "cannot be read as safetensors, it is truncated.*invalid header length"),
        ("empty", "is empty"),
        ("git lfs", "Git LFS pointer"),
        ("a web page", "model.safetensors' cannot be read as safetensors.*header too large"),
        ("no header", "model.safetensors' cannot be read as safetensors.*invalid JSON in header"),
        ("overlapping sizes", "model.safetensors' cannot be read as safetensors.*invalid shape"),
        ("unknown type", "model.safetensors' cannot be read as safetensors.*F8!"),
        ("broken config", "config.json.*: not JSON"),
        ("broken tokenizer", "tokenizer.json: expected a JSON object"),
        ("missing variable", "lacks 1 variables of the encoder: encoder_block_1/feed_forward/output/bias"),
        ("two names", "two names of the same variable"),
    ],
)
def test_damage_is_named_before_anything_is_built(directory, kind, message, monkeypatch):
    damage(kind, directory)
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
