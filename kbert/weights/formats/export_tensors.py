"""A model's variables in another format; what the format cannot hold is refused here, with the reason."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from keras import ops

from kbert.models.quantized_layers import quantized_layers
from kbert.pipelines.registry import task_class
from kbert.weights.formats.name_table import NameTable

if TYPE_CHECKING:
    import keras

    from kbert.models.bert_model import BertModel

_ADVICE = "Save the encoder alone (save_pretrained(model.encoder, …)), or in another format."


def export_tensors(names: NameTable, model: "BertModel") -> dict[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]]:
    """Name there → (shape there, function that returns the values), in the order of the model's variables."""
    if quantized_layers(model):
        raise ValueError(f'format="{names.format}" cannot hold a quantised model. Save it as format="huggingface".')
    tensors = {}
    for variable in model.weights:
        tensor = names.find(variable.path)
        if tensor is None:
            part = variable.path.partition("/")[0].replace("_", " ")
            if variable.path.endswith("/output_embeddings"):
                part = "untied decoder"
            raise ValueError(f'format="{names.format}" cannot hold the {part}: its models have none. {_ADVICE}')
        values = functools.partial(as_float, variable, tensor.transposed)
        tensors[tensor.name] = tensor.shape(variable.shape), values
    return tensors


def as_float(variable: "keras.Variable", transposed: bool = False) -> np.ndarray:
    """The values as float32; a model may be kept in bfloat16."""
    values = ops.convert_to_numpy(variable.value).astype("float32", copy=False)
    return values.T if transposed else values


def check_held(
    names: NameTable,
    model: "BertModel",
    head_activation: str | None = None,
    head_layer_norm_epsilon: float | None = None,
) -> None:
    """Raises ValueError for a model that would compute something else in a format of the paper's models only.

    `head_activation` and `head_layer_norm_epsilon` are those of its masked-LM head; None: as in the encoder.
    """
    format = names.format
    if model.task != "encoder" and not task_class(model.task).heads:
        raise ValueError(
            f'format="{format}" cannot hold a {model.task} model, which would be read as an encoder. {_ADVICE}'
        )
    if model.multi_label:
        raise ValueError(
            f'format="{format}" cannot hold a multi-label classifier: it would be read as one that gives one label of '
            f"several. {_ADVICE}"
        )
    if model.task == "classification" and model.num_labels == 1:
        raise ValueError(
            f'format="{format}" cannot hold a classifier with one label, which would be read as a regressor. {_ADVICE}'
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
    if model.encoder.pooler is None:
        raise ValueError(
            f'format="{format}" cannot hold an encoder without pooler: its BERT always has one, and would initialise '
            'it anew. Save the model as format="huggingface", or give it a pooler: load_pretrained(…, pooler=True).'
        )
