"""LoRA adapters in the files of Hugging Face's PEFT, `adapter_model.safetensors` and `adapter_config.json`."""

import hashlib
import re
from functools import partial

import numpy as np

from kbert.aliases import PathLike
from kbert.checks import check_path
from kbert.files import check_directory_is_free, read_json, write_directory, write_json
from kbert.models.bert_model import BertModel
from kbert.models.lora import add_lora, dense_layers, freeze_encoder, lora_layers
from kbert.pipelines.registry import task_class
from kbert.weights.files.safetensors_file import SafetensorsFile, write_safetensors
from kbert.weights.files.tensor_file import read_finite
from kbert.weights.formats.export_tensors import as_float
from kbert.weights.formats.huggingface_weights import NAMES
from kbert.weights.formats.name_table import TensorName

_WEIGHTS, _CONFIG, _HASH = "adapter_model.safetensors", "adapter_config.json", "kbert_base_sha256"
_DECODER = "base_model.model.cls.predictions.decoder.weight"
_LORA = {"lora_kernel_a": "lora_A.weight", "lora_kernel_b": "lora_B.weight"}  # kbert's variable → PEFT's name
_TASK_TYPES = {"classification": "SEQ_CLS", "regression": "SEQ_CLS", "tagging": "TOKEN_CLS", "span": "QUESTION_ANS"}
_OFF = ("use_rslora", "use_dora", "rank_pattern", "alpha_pattern", "alora_invocation_tokens")
_POSSIBLE = dict(peft_type=("LORA",), bias=("none",)) | dict.fromkeys(_OFF, (False, {}, []))
_POSSIBLE["init_lora_weights"] = (True, False, "gaussian", "eva", "orthogonal", "mica")  # others change the base


def save_adapter(model: BertModel, directory: PathLike) -> None:
    """Writes LoRA's matrices and the head as an adapter that PEFT loads onto the same base model in transformers.

    Args:
        model: a model with LoRA.
        directory: where to write the two files. An adapter that is already there is replaced.

    Raises:
        FileExistsError: the directory contains other files.
        ValueError: the model has no LoRA, unequal ranks, or a head that transformers' BERT does not have.

    Example::

        kbert.weights.save_adapter(model, "adapter")
        # peft.PeftModel.from_pretrained(transformers.BertForSequenceClassification.from_pretrained(base), "adapter")
    """
    directory = check_path(directory, "save_adapter: `directory`")
    settings = {tuple(setting) for setting in lora_layers(model).values()}
    if len(settings) != 1:
        problem = f"one rank and alpha. Received: {sorted(settings) or 'no LoRA'}. Call `enable_lora(rank)`"
        raise ValueError(f"save_adapter: the LoRA layers must have {problem}")
    ((rank, alpha),) = settings
    tensors = {t.name: (t.shape(v.shape), partial(as_float, v, t.transposed)) for t, v in _learned(model).items()}
    modules = (name.split(".", 2)[2].split(".lora_")[0] for name in tensors if ".lora_" in name)
    config = dict(peft_type="LORA", task_type=_TASK_TYPES.get(model.task), r=rank, lora_alpha=alpha)
    config["modules_to_save"] = sorted({name.split(".")[2] for name in tensors if ".lora_" not in name}) or None
    config["target_modules"] = "|".join(sorted({re.sub(r"\\\.\d+", r"\\.\\d+", re.escape(name)) for name in modules}))

    def write(place):
        write_safetensors(place / _WEIGHTS, tensors, **{"format": "pt", _HASH: _base_hash(model)})
        write_json(place / _CONFIG, config)

    check_directory_is_free(directory, (_WEIGHTS, _CONFIG), overwrite=True)
    write_directory(directory, write)


def load_adapter(model: BertModel, directory: PathLike) -> None:
    """Loads an adapter that `save_adapter` or PEFT wrote, and its head if it has one. Freezes the encoder.

    Args:
        model: the base model, without LoRA, or with LoRA of the adapter's layers, rank and alpha.
        directory: where the adapter's two files are.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: damaged files, settings that kbert does not have, or an adapter for another model. The model is
            unchanged.
    """
    directory = check_path(directory, "load_adapter: `directory`")
    file, config = SafetensorsFile(directory / _WEIGHTS), read_json(directory / _CONFIG)
    for name, possible in _POSSIBLE.items():
        if (found := config.get(name)) not in (None, *possible):
            raise ValueError(f"{directory / _CONFIG}: kbert does not support `{name}={found!r:.80}`")
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if type(rank) is not int or rank < 1 or type(alpha) not in (int, float) or not alpha > 0:
        raise ValueError(f"{directory / _CONFIG}: `r` and `lora_alpha` must be positive. Received: {rank}, {alpha}")
    shapes = {name: info.shape for name, info in file.tensors.items()}
    has_head = bool(config.get("modules_to_save"))  # otherwise the model keeps its own
    if has_head and (kind := config.get("task_type")) in _TASK_TYPES.values() and kind != _TASK_TYPES.get(model.task):
        raise ValueError(f"{directory} is an adapter for another task than {model.task}. Received: task_type {kind}")
    expected = {t.name: t.shape(v.shape) for t, v in _learned(model).items() if has_head or ".lora_" in t.name}
    wanted = {}
    for layer in dense_layers(model):
        a, b = (_tensor(model, f"{layer.path}/{matrix}").name for matrix in _LORA)
        if a in shapes:
            wanted[layer.path] = [rank, alpha]
            expected |= {a: (rank, layer.kernel.shape[0]), b: (layer.kernel.shape[1], rank)}
    for name in sorted({*expected, *shapes}):
        if (own := expected.get(name)) != (stored := shapes.get(name)):
            raise ValueError(f"{file.path} is not for this model and head. {name}: expected {own}, received {stored}")
    if not wanted:
        raise ValueError(f"{file.path} has no LoRA matrices of this model's layers")
    if (present := lora_layers(model)) not in ({}, wanted):
        raise ValueError(f"{directory}: the model's LoRA has other layers or another rank or alpha. Load its base")
    values = {name: read_finite(file, name) for name in expected}
    table = model.encoder.embeddings.token_embedding.embeddings
    if _DECODER in values and model.tied and not np.array_equal(values[_DECODER], as_float(table)):
        raise ValueError(f"{file.path}: {_DECODER} differs from the token embeddings, to which this head is tied")
    if file.metadata.get(_HASH) not in (None, _base_hash(model)):  # PEFT writes no hash
        raise ValueError(f"{directory} was trained on other base weights (a missing pooler is new on every load)")
    if not present:
        freeze_encoder(model)
        add_lora(model, wanted)
    model.provenance = model.encoder.provenance = None  # the weights change
    for tensor, variable in _learned(model).items():
        if tensor.name in values:
            variable.assign(values[tensor.name].T if tensor.transposed else values[tensor.name])


def _tensor(model, path: str) -> TensorName:
    """PEFT's name of a variable: transformers', in which an encoder's own class has no prefix."""
    layer, _, part = path.rpartition("/")
    if (tensor := NAMES.find(f"{layer}/kernel" if part in _LORA else path)) is None:
        raise ValueError(f"An adapter cannot contain {path}, which transformers' BERT does not have")
    name = tensor.name if task_class(model.task).heads else tensor.name.removeprefix("bert.")
    name = name.removesuffix("weight") + _LORA[part] if part in _LORA else name
    return TensorName(f"base_model.model.{name}", tensor.transposed)


def _learned(model) -> dict:
    """The head's variables and LoRA's matrices, by their `TensorName` in PEFT."""
    encoder = {id(variable) for variable in model.encoder.weights if not variable.path.endswith(tuple(_LORA))}
    learned = {_tensor(model, variable.path): variable for variable in model.weights if id(variable) not in encoder}
    if "masked_lm_head" in task_class(model.task).heads:  # PEFT saves the whole head, in which they are tied
        learned[TensorName(_DECODER.replace("weight", "bias"))] = model.get_layer("masked_lm_head").output_bias
        if model.tied:
            learned[TensorName(_DECODER)] = model.encoder.embeddings.token_embedding.embeddings
    return learned


def _base_hash(model) -> str:
    """A hash of the encoder's weights without LoRA's matrices."""
    digest = hashlib.sha256()
    for variable in sorted(model.encoder.weights, key=lambda variable: variable.path):
        if "/lora_kernel_" not in variable.path:
            digest.update(f"{variable.path} {variable.shape}".encode() + as_float(variable).tobytes())
    return digest.hexdigest()
