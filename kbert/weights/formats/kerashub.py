"""Presets of KerasHub: `config.json`, `task.json`, `model.weights.h5`, `task.weights.h5`, the tokenizer and its assets.

The JSON files are read here as plain data: no class is looked up by a name from a file. KerasHub itself is imported to
write a preset, and to read the weights of older Keras. Weights and vocabulary are written exactly, but KerasHub's
tokenizer treats rare characters in its own way (docs/parity.md).
"""

import pathlib
import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from kbert.config import BertConfig
from kbert.files import read_json, write_json
from kbert.options import PathLike
from kbert.text.vocabulary import read_vocabulary
from kbert.weights.description import default_settings
from kbert.weights.files.h5_file import H5File, check_h5
from kbert.weights.files.tensor_file import TensorFile, TensorInfo
from kbert.weights.formats.checkpoint import (
    NO_VOCABULARY,
    SETTINGS,
    StoredTokenizer,
    TensorCheckpoint,
    described,
    read_kbert_settings,
)
from kbert.weights.formats.config_names import SIZES, ConfigNames, entry
from kbert.weights.formats.export_tensors import check_held, export_tensors
from kbert.weights.formats.name_table import NameTable, TensorName, parameters_of

if TYPE_CHECKING:
    import keras_hub

    from kbert.models.bert_model import BertModel
    from kbert.pipelines.settings import ModelSettings

_ATTENTION = "transformer_layer_{i}/self_attention_layer/"
NAMES = NameTable(
    "kerashub",
    names={  # its attention layers have a separate axis of heads
        "encoder_block_{i}/attention/query/kernel": TensorName(_ATTENTION + "query/kernel", "HAD"),
        "encoder_block_{i}/attention/query/bias": TensorName(_ATTENTION + "query/bias", "AD"),
        "encoder_block_{i}/attention/key/kernel": TensorName(_ATTENTION + "key/kernel", "HAD"),
        "encoder_block_{i}/attention/key/bias": TensorName(_ATTENTION + "key/bias", "AD"),
        "encoder_block_{i}/attention/value/kernel": TensorName(_ATTENTION + "value/kernel", "HAD"),
        "encoder_block_{i}/attention/value/bias": TensorName(_ATTENTION + "value/bias", "AD"),
        "encoder_block_{i}/attention/output/kernel": TensorName(_ATTENTION + "attention_output/kernel", "ADH"),
        "encoder_block_{i}/attention/output/bias": _ATTENTION + "attention_output/bias",
        "masked_lm_head/output_bias": "mlm_head/output_bias",
    },
    layers={
        "embeddings/token_embedding": "token_embedding",
        "embeddings/segment_embedding": "segment_embedding",
        "embeddings/position_embedding": "position_embedding",
        "embeddings/layer_norm": "embeddings_layer_norm",
        "encoder_block_{i}/attention_layer_norm": "transformer_layer_{i}/self_attention_layer_norm",
        "encoder_block_{i}/feed_forward/intermediate": "transformer_layer_{i}/feedforward_intermediate_dense",
        "encoder_block_{i}/feed_forward/output": "transformer_layer_{i}/feedforward_output_dense",
        "encoder_block_{i}/feed_forward_layer_norm": "transformer_layer_{i}/feedforward_layer_norm",
        "pooler/dense": "pooled_dense",
        "masked_lm_head/transform": "mlm_head/intermediate_dense",
        "masked_lm_head/layer_norm": "mlm_head/intermediate_layer_norm",
        "classifier_head/dense": "logits",
        "regressor_head/dense": "logits",
    },
    absent={
        "masked_lm_head": "an untied decoder: BertMaskedLM always uses the token embeddings instead",
        "next_sentence_head": "a next-sentence head: KerasHub has none",
        "span_head": "a span head: KerasHub has none",
        "tagger_head": "a tagging head: KerasHub has none",
        "multiple_choice_head": "a multiple-choice head: KerasHub has none",
    },
)
CONFIG_NAMES = ConfigNames(
    format="kerashub",
    fields={
        "vocabulary_size": "vocabulary_size",
        "num_layers": "num_layers",
        "hidden_dim": "hidden_dim",
        "num_heads": "num_heads",
        "intermediate_dim": "intermediate_dim",
        "max_sequence_length": "max_sequence_length",
        "num_segments": "num_segments",
        "hidden_dropout": "dropout",
        "attention_dropout": "dropout",
    },
    fixed={
        "activation": "gelu_tanh",
        "layer_norm_epsilon": 1e-12,
        "causal": False,
        "position_embedding": "learned",
        "pooled_token": "first",
    },
    fixed_reason="BertBackbone has no such argument, and means",
    num_labels="num_classes",
)
_CONFIG = "config.json"
_TASK = "task.json"
_TOKENIZER = "tokenizer.json"
_PREPROCESSOR = "preprocessor.json"
_WEIGHTS = "model.weights.h5"
_SHARDS = "model.weights.json"
_TASK_WEIGHTS = "task.weights.h5"
_VOCABULARY = "assets/tokenizer/vocabulary.txt"
_TASKS = {"BertMaskedLM": "masked_lm", "BertTextClassifier": "classification", "BertClassifier": "classification"}
# What KerasHub's masked-LM head computes, independently of the backbone (keras_hub 0.32, bert_masked_lm.py).
_HEAD = {"head_activation": "gelu_erf", "head_layer_norm_epsilon": 1e-5}
_MAX_WORD_LENGTH = 100  # bytes, of tensorflow-text's FastWordpieceTokenizer as KerasHub uses it
_TOKENIZER_ARGUMENTS = {
    "lowercase": "lowercase",
    "strip_accents": "strip_accents",
    "split_on_cjk": "split_on_cjk",
    "special_tokens_in_strings": "special_tokens_in_text",
}


TITLE = f"a KerasHub preset ({_CONFIG}, {_WEIGHTS})"
FILES = (_CONFIG, _TASK, _PREPROCESSOR, _TOKENIZER, "metadata.json", "*.weights.h5", "assets", SETTINGS)


def recognizes(path: pathlib.Path) -> bool:
    """A preset of KerasHub or KerasNLP, of BERT or another model."""
    config = (path.parent if path.is_file() else path) / _CONFIG
    try:
        return config.is_file() and _class_of(read_json(config)) is not None
    except ValueError:
        return False


def read(path: pathlib.Path, vocabulary: PathLike | None = None) -> TensorCheckpoint:
    path = path.parent if path.is_file() else path
    content = read_json(path / _CONFIG)
    if _class_of(content) != "BertBackbone":
        raise ValueError(f"{path / _CONFIG}: kbert builds BERT, a BertBackbone. Received: {_class_of(content)}")
    fields = entry(content, "config", dict, path / _CONFIG, {})
    task_content = read_json(path / _TASK) if (path / _TASK).is_file() else {}
    return kerashub_checkpoint(path, fields, task_content, _tokenizer_of(path, vocabulary), _length(path))


def write(
    directory: pathlib.Path,
    model: "BertModel",
    settings: "ModelSettings",
    vocabulary: list[str] | None,
) -> None:
    hub_model = build_kerashub_model(model, settings, vocabulary)
    hub_model.save_to_preset(str(directory))
    if vocabulary is not None and model.task == "encoder":
        kerashub_tokenizer(settings, vocabulary).save_to_preset(str(directory))
    write_json(directory / SETTINGS, settings.to_dict())


def build_kerashub_model(model: "BertModel", settings: "ModelSettings", vocabulary: list[str] | None) -> keras.Model:
    """KerasHub's model with the weights of one of kbert's and, where it takes one, a preprocessor."""
    fields = CONFIG_NAMES.from_kbert(model.config)
    tensors = export_tensors(NAMES, model)
    check_held(NAMES, model, pooler=True, reason="BertBackbone always has one", **_HEAD)
    hub_model = _build(
        fields,
        model.task,
        num_classes=model.num_labels or 1,
        preprocessor=_preprocessor(model.task, settings, vocabulary),
        dropout=0.1 if model.dropout is None else model.dropout,
    )
    for variable in hub_model.weights:
        shape, values = tensors.pop(variable.path)
        if tuple(variable.shape) != shape:
            raise ValueError(f"{variable.path}: expected {shape}. Received: {variable.shape}, of this keras_hub")
        variable.assign(values())
    return hub_model


def _build(fields, task, num_classes=1, preprocessor=None, dropout=0.1):
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


def kerashub_tokenizer(settings: "ModelSettings", vocabulary: list[str]) -> "keras_hub.models.BertTokenizer":
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


def _preprocessor(task, settings, vocabulary):
    if vocabulary is None or task == "encoder":
        return None
    import keras_hub

    name = "BertMaskedLMPreprocessor" if task == "masked_lm" else "BertTextClassifierPreprocessor"
    tokenizer = kerashub_tokenizer(settings, vocabulary)
    return getattr(keras_hub.models, name)(tokenizer, sequence_length=settings.sequence_length)


# Reading.


def kerashub_checkpoint(
    path: pathlib.Path,
    fields: dict[str, Any],
    task_content: dict[str, Any],
    tokenizer: StoredTokenizer,
    length: int | None,
    tensors: TensorFile | None = None,
) -> TensorCheckpoint:
    """A checkpoint from the configs of a backbone and of a task; with `tensors`, `path` is the name of a model."""
    config_path, task_path = (path / _CONFIG, path / _TASK) if path.is_dir() else (path, path)
    _refuse_quantised(fields, config_path)
    config = CONFIG_NAMES.to_kbert(fields, str(config_path))
    task, arguments, remarks = _task_of(task_content, task_path)
    stored = read_kbert_settings(path, task) or default_settings(task, config, {}, length)
    if stored.task.labels is not None and len(stored.task.labels) != arguments.get("num_labels"):
        stored = stored.replace(labels=None)
    if tensors is None:
        tensors = _open_weights(path, fields, config, task, arguments.get("num_labels", 1))
    return TensorCheckpoint(
        path=path,
        config_path=config_path,
        names=NAMES,
        config_names=CONFIG_NAMES,
        description=described(task, config, pooler=True, **arguments),
        settings=stored.replace(tokenizer=_merged(stored.tokenizer, tokenizer.settings)),
        vocabulary=tokenizer.vocabulary,
        tensors=tensors,
        stored_names={name: name for name in tensors.tensors},
        remarks=(*remarks, *tokenizer.remarks),
    ).check()


def _class_of(content: dict) -> str | None:
    """The class that a config of KerasHub or KerasNLP names, without the package; None for another config."""
    for key in ("registered_name", "class_name"):
        package, _, name = str(content.get(key) or "").rpartition(">")
        if package in ("keras_hub", "keras_nlp"):
            return name
    return None


def _refuse_quantised(fields: dict, path: pathlib.Path) -> None:
    dtype = fields.get("dtype") or {}
    kind = dtype.get("class_name", "DTypePolicy") if isinstance(dtype, dict) else "DTypePolicy"
    if kind != "DTypePolicy":
        raise ValueError(f"{path}: the weights are quantised ({kind}); kbert reads float32, float16 and bfloat16.")


def _task_of(content: dict, path: pathlib.Path) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """Task, constructor arguments and lines for the report, from the content of task.json."""
    if not content:
        return "encoder", {}, ()
    name = _class_of(content)
    fields = entry(content, "config", dict, path, {})
    task = _TASKS.get(name)
    if task is None:
        return "encoder", {}, (f"a preset of {name}: its backbone is what kbert loads",)
    if task == "masked_lm":
        return task, {"tied": True, **_HEAD}, ()
    if fields.get("activation") not in (None, "linear"):
        raise ValueError(
            f"{path}: a classifier with activation={fields['activation']!r} gives no logits, which kbert's "
            "does. Rebuild it with activation=None."
        )
    number = fields.get("num_classes")
    dropout = {"dropout": fields.get("dropout", 0.1)}
    if type(number) is not int or number < 1:
        raise ValueError(f"{path}: `num_classes` must be a positive integer. Received: {reprlib.repr(number)}")
    return ("regression", dropout, ()) if number == 1 else (task, {"num_labels": number, **dropout}, ())


def _tokenizer_of(path, vocabulary) -> StoredTokenizer:
    if vocabulary is None and (path / _VOCABULARY).is_file():
        vocabulary = path / _VOCABULARY
    if vocabulary is None:
        return StoredTokenizer(None, remarks=(NO_VOCABULARY,))
    tokens = read_vocabulary(vocabulary)
    content = read_json(path / _TOKENIZER) if (path / _TOKENIZER).is_file() else {}
    name = _class_of(content)
    fields = entry(content, "config", dict, path / _TOKENIZER, {})
    if name not in (None, "BertTokenizer"):
        remark = f"its {name} is not a tokenizer that kbert has: the model takes token ids, but no strings"
        return StoredTokenizer(None, remarks=(remark,))
    return StoredTokenizer(tokens, tokenizer_settings(fields))


def tokenizer_settings(fields: Mapping[str, Any]) -> dict:
    """BertTokenizer's arguments from the config of KerasHub's."""
    return {argument: fields[its] for its, argument in _TOKENIZER_ARGUMENTS.items() if its in fields}


def _merged(stored: dict, stated: dict) -> dict:
    """Tokenizer settings: the preset's, completed from the file that kbert wrote beside it."""
    merged = {"max_word_length": _MAX_WORD_LENGTH, **stored, **stated}
    if "strip_accents" in stored and stored["strip_accents"] is None and merged["strip_accents"] == merged["lowercase"]:
        merged["strip_accents"] = None  # "as lowercase", for which the preset has an explicit value
    return merged


def _length(path: pathlib.Path) -> int | None:
    """The sequence length of the preset's preprocessor, or None."""
    if not (path / _PREPROCESSOR).is_file():
        return None
    fields = entry(read_json(path / _PREPROCESSOR), "config", dict, path / _PREPROCESSOR, {})
    return entry(fields, "sequence_length", int, path / _PREPROCESSOR)


def _open_weights(
    path: pathlib.Path, fields: dict[str, Any], config: BertConfig, task: str, num_classes: int
) -> TensorFile:
    """The weights of a preset whose config has the arguments `fields` of BertBackbone.

    Files in which Keras named the layers are read tensor by tensor. Others (older ones, and shards) are loaded by
    KerasHub into its own model, which takes memory for the weights a second time.
    """
    sharded = (path / _SHARDS).is_file()
    weights = _shards(path / _SHARDS) if sharded else [path / _WEIGHTS]
    heads = [] if task == "encoder" else [path / _TASK_WEIGHTS]
    for file in (*weights, *heads):
        if not file.is_file():
            raise FileNotFoundError(f"No file at {str(file)!r}: the preset is incomplete.")
        check_h5(file)
    if not sharded:
        direct = H5File([*weights, *heads], NAMES.layer_variables())
        if direct.tensors:
            return direct
    size = sum(file.stat().st_size for file in weights)
    if size < 2 * parameters_of(config):
        raise ValueError(
            f"{path / _CONFIG}: the sizes {SIZES} describe a model of {parameters_of(config)} parameters. "
            f"Received: {size} bytes of weights."
        )
    try:
        model = _build(fields, task, num_classes)
        getattr(model, "backbone", model).load_weights(str(path / (_SHARDS if sharded else _WEIGHTS)))
        if heads:
            model.load_task_weights(str(heads[0]))
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise ValueError(f"{path}: the weights do not fit the config beside them: {error}") from error
    return KerasHubVariables(path, model)


def _shards(path: pathlib.Path) -> list[pathlib.Path]:
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

    def __init__(self, path: pathlib.Path, model: keras.Model) -> None:
        self.path = path
        self._variables = {variable.path: variable for variable in model.weights}
        self.tensors = {name: TensorInfo(tuple(v.shape), "float32") for name, v in self._variables.items()}

    def read(self, name: str) -> np.ndarray:
        return ops.convert_to_numpy(self._variables[name]).astype("float32", copy=False)
