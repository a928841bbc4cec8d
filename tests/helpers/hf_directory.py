"""The golden Hugging Face directory, to be changed and read again."""

import json
import pathlib
import shutil

from kbert.weights.files.safetensors_file import write_safetensors
from kbert.weights.formats.huggingface_weights import open_huggingface_weights

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


def copy_golden(form, target):
    """A copy of golden/hf_<form>."""
    return pathlib.Path(shutil.copytree(GOLDEN / f"hf_{form}", target))


def edit(path, **changes):
    """Changes entries of a JSON file; ... removes one."""
    content = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in {**content, **changes}.items() if v is not ...}))


def rewrite(path, rename=lambda name: name, drop=(), add=None):
    """Writes the weights anew, under other names, with some left out and others added; returns them."""
    file = open_huggingface_weights(path)
    tensors = {rename(name): file.read(name) for name in file.tensors if name not in drop}
    tensors |= add or {}
    write_safetensors(path / "model.safetensors", {n: (v.shape, lambda v=v: v) for n, v in tensors.items()})
    return tensors
