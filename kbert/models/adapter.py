"""What a model with LoRA has learned, as a small file: an archive of arrays (npz) and a description."""

import hashlib
import json
import os
import zipfile
from typing import TYPE_CHECKING

import keras
import numpy as np

from kbert.checks import check_path
from kbert.files import atomic_file, parse_json, storable
from kbert.models.lora import add_lora, dense_layers, freeze_encoder, lora_layers

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel


_DESCRIPTION = "adapter.json"


def save_adapter(model: "BertModel", path: str | os.PathLike) -> None:
    """`BertModel.save_adapter`: LoRA's matrices, the variables after the encoder, and a hash of the encoder itself."""
    lora = lora_layers(model)
    if not lora:
        raise ValueError(f"{type(model).__name__}.save_adapter: a model without LoRA. Call `enable_lora(rank)` first.")
    path = check_path(path, f"{type(model).__name__}.save_adapter: `path`")
    description = {"model": type(model).__name__, "lora_layers": lora, "base": _base_hash(model)}
    arrays = {name: storable(keras.ops.convert_to_numpy(v.value)) for name, v in _learnt(model).items()}
    with atomic_file(path, "wb") as file:
        np.savez(file, **{_DESCRIPTION: np.frombuffer(json.dumps(description).encode(), "uint8")}, **arrays)


def load_adapter(model: "BertModel", path: str | os.PathLike) -> None:
    """`BertModel.load_adapter`."""
    path = check_path(path, f"{type(model).__name__}.load_adapter: `path`")
    if not path.is_file():
        raise FileNotFoundError(f"Expected an adapter, a file that `save_adapter` wrote. Received: {str(path)!r}")
    description, arrays = _read(path)
    for name, array in arrays.items():
        _require(path, f"`{name}` in floats, NumPy's kind", "f", array.dtype.kind)
    _require(path, "an adapter of the model", type(model).__name__, description["model"])
    lora = description["lora_layers"]
    if present := lora_layers(model):
        _require(path, "LoRA of these layers, rank and alpha:", present, lora)
    _check_shapes(path, model, lora, {name: array.shape for name, array in arrays.items()})
    if (base := _base_hash(model)) != description["base"]:
        raise ValueError(
            f"{path}: expected the adapter of a base whose weights have the hash {base}. Received: "
            f"{description['base']}. Load the base that it was trained on; what a checkpoint lacks, such as a pooler, "
            "is new each time unless the base itself was saved"
        )
    if not present:
        freeze_encoder(model)
        add_lora(model, lora)
    for name, variable in _learnt(model).items():
        variable.assign(arrays[name])


def _learnt(model):
    """Name in the file → variable."""
    in_encoder = {id(variable) for variable in model.encoder.weights}
    learnt = {variable.path: variable for variable in model.weights if id(variable) not in in_encoder}
    for layer in dense_layers(model):
        if layer.lora_enabled:
            learnt |= {f"{layer.path}/lora_kernel_{x}": getattr(layer, f"lora_kernel_{x}") for x in "ab"}
    return learnt


def _base_hash(model):
    learnt = {id(variable) for variable in _learnt(model).values()}
    digest = hashlib.sha256()
    for variable in sorted(model.encoder.weights, key=lambda variable: variable.path):
        if id(variable) not in learnt:
            values = np.ascontiguousarray(keras.ops.convert_to_numpy(variable.value))
            digest.update(f"{variable.path} {values.dtype} {values.shape}".encode())
            digest.update(values.tobytes())
    return digest.hexdigest()


def _check_shapes(path, model, lora, shapes):
    layers = {layer.path: layer for layer in dense_layers(model)}
    expected = {name: tuple(variable.shape) for name, variable in _learnt(model).items()}
    for name, (rank, _) in lora.items():
        if name not in layers:
            raise ValueError(f"{path}: expected LoRA of {sorted(layers)}. Received: {name}")
        rows, columns = layers[name].kernel.shape
        expected |= {f"{name}/lora_kernel_a": (rows, rank), f"{name}/lora_kernel_b": (rank, columns)}
    for name in sorted({*expected, *shapes}):
        _require(path, f"`{name}` of the shape", expected.get(name), shapes.get(name))


def _read(path):
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        description = parse_json(arrays.pop(_DESCRIPTION).tobytes(), str(path))
    except (zipfile.BadZipFile, KeyError, EOFError, AttributeError, ValueError, OSError) as error:
        raise ValueError(f"{path}: expected an adapter, a file that `save_adapter` wrote. Received: {error}") from error
    lora = description.get("lora_layers") if isinstance(description, dict) else None
    settings = lora.values() if isinstance(lora, dict) and lora else [None]
    is_sound = all(isinstance(x, list) and [type(y) for y in x] in ([int, int], [int, float]) for x in settings)
    if not is_sound or {"model", "base"} - description.keys():
        raise ValueError(f"{path}: expected the description of an adapter. Received: {str(description)[:200]}")
    return description, arrays


def _require(path, what, expected, received):
    if expected != received:
        raise ValueError(f"{path}: expected {what} {expected}. Received: {received}")
