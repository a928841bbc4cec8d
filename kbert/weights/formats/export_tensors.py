"""A model's variables in another format; what the format cannot hold is refused here, with the reason."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from keras import ops

from kbert.models.quantized_layers import quantized_layers
from kbert.pipelines.registry import task_class
from kbert.weights.formats.name_table import NameTable, TensorName, sizes_of

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel

_ADVICE = "Save the encoder alone (save_pretrained(model.encoder, …)), or in another format."


def export_tensors(names: NameTable, model: "BertModel") -> dict[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]]:
    """Name there → (shape there, function that returns the values), in the order of the model's variables."""
    sizes = sizes_of(model.config, model.num_labels)

    def values(tensor, variable):
        # A model may be kept in bfloat16.
        return tensor.from_kbert(ops.convert_to_numpy(variable).astype("float32", copy=False), sizes)

    return {
        tensor.name: (tensor.shape(sizes), functools.partial(values, tensor, variable))
        for variable, tensor in zip(model.weights, tensor_names(names, model).values(), strict=True)
    }


def tensor_names(names: NameTable, model: "BertModel") -> dict[str, TensorName]:
    """Path of each of the model's variables → the tensor that holds it in the format; ValueError if none can."""
    if quantized_layers(model):
        raise ValueError(f'format="{names.format}" cannot hold a quantised model. Save it as format="huggingface".')
    by_path = {variable.path: names.find(variable.path) for variable in model.weights}
    for path, tensor in by_path.items():
        if tensor is None:
            raise ValueError(f'format="{names.format}" cannot hold {names.why_absent(path)}. {_ADVICE}')
    return by_path


def check_held(
    names: NameTable,
    model: "BertModel",
    *,
    pooler: bool,
    reason: str,
    multi_label: bool = False,
    head_activation: str | None = None,
    head_layer_norm_epsilon: float | None = None,
) -> None:
    """Raises ValueError for a model that would compute something else in the format.

    Args:
        pooler: whether the format's model of this task has one.
        reason: why, for the message.
        multi_label: whether the format can mark a multi-label classifier as one.
        head_activation, head_layer_norm_epsilon: of its masked-LM head; None: as in the encoder.
    """
    format = names.format
    if model.task != "encoder" and not task_class(model.task).heads:
        raise ValueError(
            f'format="{format}" cannot hold a {model.task} model, which would be read as an encoder. {_ADVICE}'
        )
    if model.multi_label and not multi_label:
        raise ValueError(
            f'format="{format}" cannot hold a multi-label classifier: it would be read as one that gives one label of '
            f"several. {_ADVICE}"
        )
    if model.task in ("pretraining", "masked_lm"):
        own = model.config.activation, model.config.layer_norm_epsilon
        expected = head_activation or own[0], head_layer_norm_epsilon or own[1]
        received = model.head_activation or own[0], model.head_layer_norm_epsilon or own[1]
        if received != expected:
            raise ValueError(
                f'format="{format}" has a masked-LM head with activation and LayerNorm epsilon {expected}. Received: a '
                f"model whose head has {received}. Written there it would compute something else. {_ADVICE}"
            )
    if pooler and model.encoder.pooler is None:
        raise ValueError(
            f'format="{format}" cannot hold an encoder without pooler: {reason}, and would initialise one anew. Save '
            'it as format="huggingface", or give it a pooler: load_pretrained(…, pooler=True).'
        )
    if not pooler and model.encoder.pooler is not None:
        raise ValueError(
            f'format="{format}" cannot hold a {model.task} model whose encoder has a pooler: {reason}. The pooler has '
            "no part in this task: load the model with load_pretrained(…, pooler=False) to leave it out "
            "(kbert convert: --no-pooler)."
        )
