"""KerasHub's models and tokenizers: built, and the weights of presets by KerasHub's variable paths."""

import pathlib
import reprlib
from typing import Any

import numpy as np
from keras import ops

from kbert.config import BertConfig
from kbert.files import read_json
from kbert.weights.files.h5_file import H5File, check_h5
from kbert.weights.files.tensor_file import TensorFile, TensorInfo
from kbert.weights.formats.config_names import SIZES
from kbert.weights.formats.name_table import NameTable, parameters_of

WEIGHTS, SHARDS, TASK_WEIGHTS = "model.weights.h5", "model.weights.json", "task.weights.h5"
_PREPROCESSORS = {
    "masked_lm": "BertMaskedLMPreprocessor",
    "classification": "BertTextClassifierPreprocessor",
    "regression": "BertTextClassifierPreprocessor",
}


def open_kerashub_weights(
    path: pathlib.Path, names: NameTable, fields: dict[str, Any], config: BertConfig, task: str, num_classes: int
) -> TensorFile:
    """Opens the weights of a preset whose config has the arguments `fields` of BertBackbone.

    Files in which Keras named the layers are read tensor by tensor. Others (older ones, and shards) are loaded by
    KerasHub into its own model, which takes memory for the weights a second time.
    """
    sharded = (path / SHARDS).is_file()
    weights = _shards(path / SHARDS) if sharded else [path / WEIGHTS]
    heads = [] if task == "encoder" else [path / TASK_WEIGHTS]
    for file in (*weights, *heads):
        if not file.is_file():
            raise FileNotFoundError(f"No file at {str(file)!r}: the preset is incomplete.")
        check_h5(file)
    if not sharded:
        direct = H5File([*weights, *heads], names.layer_variables())
        if direct.tensors:
            return direct
    size = sum(file.stat().st_size for file in weights)
    if size < 2 * parameters_of(config):
        raise ValueError(
            f"{path / 'config.json'}: the sizes {SIZES} describe a model of {parameters_of(config)} parameters. "
            f"Received: {size} bytes of weights."
        )
    try:
        model = kerashub_model(fields, task, num_classes)
        getattr(model, "backbone", model).load_weights(str(path / (SHARDS if sharded else WEIGHTS)))
        if heads:
            model.load_task_weights(str(heads[0]))
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise ValueError(f"{path}: the weights do not fit the config beside them: {error}") from error
    return KerasHubVariables(path, model)


def _shards(path):
    """The files that an index names, which must lie beside it."""
    weight_map = read_json(path).get("weight_map")
    values = weight_map.values() if isinstance(weight_map, dict) else ()
    names = [name for value in values for name in (value if isinstance(value, list) else [value])]
    if not names or not all(isinstance(name, str) and pathlib.Path(name).name == name for name in names):
        raise ValueError(
            f"{path}: expected a `weight_map` from layers to files beside it. Received: {reprlib.repr(weight_map)}"
        )
    return [path.with_name(name) for name in sorted(set(names))]


class KerasHubVariables:
    """The variables of a KerasHub model as a `TensorFile`; `path` is for messages."""

    def __init__(self, path, model):
        self.path = path
        self._variables = {variable.path: variable for variable in model.weights}
        self.tensors = {name: TensorInfo(tuple(v.shape), "float32") for name, v in self._variables.items()}

    def read(self, name: str) -> np.ndarray:
        return ops.convert_to_numpy(self._variables[name]).astype("float32", copy=False)


def kerashub_model(fields, task, num_classes=1, preprocessor=None, dropout=0.1):
    """KerasHub's model of a task, newly initialised, in float32; `fields` are the arguments of its BertBackbone."""
    try:
        import keras_hub
    except ImportError as error:
        raise ImportError("this needs keras_hub: pip install keras-nlp", name="keras_hub") from error
    fields = {k: v for k, v in fields.items() if k not in ("name", "trainable", "dtype")}
    backbone = keras_hub.models.BertBackbone(**fields, dtype="float32")
    if task == "encoder":
        return backbone
    if task == "masked_lm":
        return keras_hub.models.BertMaskedLM(backbone, preprocessor=preprocessor)
    return keras_hub.models.BertTextClassifier(
        backbone, num_classes=num_classes, preprocessor=preprocessor, dropout=dropout
    )


def kerashub_tokenizer(settings, vocabulary):
    import keras_hub

    wanted = settings.tokenizer
    if isinstance(wanted["special_tokens_in_text"], list):
        raise ValueError(
            "KerasHub's tokenizer has no special tokens of one's own. Expected True or False as "
            f"`special_tokens_in_text`. Received: {wanted['special_tokens_in_text']}"
        )
    strip = wanted["lowercase"] if wanted["strip_accents"] is None else wanted["strip_accents"]
    return keras_hub.models.BertTokenizer(
        vocabulary=list(vocabulary),
        lowercase=wanted["lowercase"],
        strip_accents=strip,
        split_on_cjk=wanted["split_on_cjk"],
        special_tokens_in_strings=wanted["special_tokens_in_text"],
    )


def kerashub_preprocessor(task, settings, vocabulary):
    if vocabulary is None or task not in _PREPROCESSORS:
        return None
    import keras_hub

    preprocessor = getattr(keras_hub.models, _PREPROCESSORS[task])
    return preprocessor(kerashub_tokenizer(settings, vocabulary), sequence_length=settings.sequence_length)
