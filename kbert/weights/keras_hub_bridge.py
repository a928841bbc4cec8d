"""Models of KerasHub, to and from kbert's. Presets are opened and written by keras_hub itself."""

import os
import pathlib
import re
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from kbert.aliases import PathLike
from kbert.errors import MissingPackage
from kbert.files import check_directory_is_free, read_json, write_directory
from kbert.models.lora import merged
from kbert.weights.description import ModelDescription, default_settings
from kbert.weights.files.tensor_file import TensorInfo
from kbert.weights.formats.checkpoint import NO_VOCABULARY, TensorCheckpoint
from kbert.weights.formats.config_names import SIZES, ConfigNames
from kbert.weights.formats.export_tensors import check_held, export_tensors
from kbert.weights.formats.name_table import NameTable
from kbert.weights.load import load_pretrained
from kbert.weights.save import resolve_parts
from kbert.weights.source import is_preset

if TYPE_CHECKING:
    import keras_hub

    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.pipelines.settings import ModelSettings
    from kbert.text.tokenizer import BertTokenizer


_ATTENTION = "transformer_layer_{i}/self_attention_layer/"
NAMES = NameTable(
    "kerashub",
    names={"masked_lm_head/output_bias": "mlm_head/output_bias"},
    layers={
        "embeddings/token_embedding": "token_embedding",
        "embeddings/segment_embedding": "segment_embedding",
        "embeddings/position_embedding": "position_embedding",
        "embeddings/layer_norm": "embeddings_layer_norm",
        "encoder_block_{i}/attention/query": _ATTENTION + "query",
        "encoder_block_{i}/attention/key": _ATTENTION + "key",
        "encoder_block_{i}/attention/value": _ATTENTION + "value",
        "encoder_block_{i}/attention/output": _ATTENTION + "attention_output",
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
)
CONFIG_NAMES = ConfigNames(
    format="kerashub",
    fields={name: name for name in SIZES} | {"hidden_dropout": "dropout", "attention_dropout": "dropout"},
    fixed=dict(
        activation="gelu_tanh",
        layer_norm_epsilon=1e-12,
        causal=False,
        position_embedding="learned",
        pooled_token="first",
    ),
)
_PRESET_FILES = ("*.json", "*.weights.h5", "assets")
# What KerasHub's masked-LM head computes, independently of the backbone (keras_hub 0.32, bert_masked_lm.py).
_HEAD = {"head_activation": "gelu_erf", "head_layer_norm_epsilon": 1e-5}
_MAX_WORD_LENGTH = 100  # bytes, of tensorflow-text's FastWordpieceTokenizer as KerasHub uses it
_TOKENIZER_ARGUMENTS = {name: name for name in ("lowercase", "strip_accents", "split_on_cjk")}  # KerasHub's → kbert's
_TOKENIZER_ARGUMENTS |= {"special_tokens_in_strings": "special_tokens_in_text"}


def from_keras_hub(
    source: "keras.Model | str | os.PathLike",
    tokenizer: "keras_hub.models.BertTokenizer | None" = None,
    task: str | None = None,
    **overrides,
) -> "BertModel":
    """A kbert model with the weights of a KerasHub model, and with its tokenizer.

    The values are copied: training one model does not change the other.

    Args:
        source: a keras_hub BertBackbone, BertMaskedLM or BertTextClassifier. Of other models kbert takes the
            BertBackbone. Or a preset, which keras_hub opens: the directory of one of these models, or a name such as
            "bert_tiny_en_uncased". KerasHub's named presets contain a backbone. keras_hub builds whatever classes a
            preset names, so open only presets you trust.
        tokenizer: a keras_hub BertTokenizer. Defaults to the tokenizer of the preset or of the model's preprocessor.
        task, **overrides: see `kbert.load_pretrained`.

    Returns:
        The model of the task, such as `kbert.BertEncoder`. Its ``pretrained.tokenizer`` is a `kbert.BertTokenizer`.

    Raises:
        ImportError: keras_hub is not installed.
        FileNotFoundError: KerasHub cannot load a preset of this name.
        TypeError: `source` is something else.
        ValueError: a preset that KerasHub cannot load, or a model that kbert cannot represent (the message says why).

    Example::

        backbone = keras_hub.models.BertBackbone.from_preset("bert_tiny_en_uncased")
        encoder = kbert.weights.from_keras_hub(backbone)
    """
    if overrides.get("vocabulary") is not None:
        raise ValueError("from_keras_hub: the vocabulary is the tokenizer's; give another `tokenizer`")
    if isinstance(source, str | os.PathLike):
        source, tokenizer = _opened(os.fspath(source), tokenizer)
    return load_pretrained(_checkpoint(source, tokenizer), task, **overrides)


def to_keras_hub(
    model_or_pipeline: "BertModel | Pipeline", tokenizer: "BertTokenizer | None" = None
) -> "tuple[keras.Model, keras_hub.models.BertTokenizer | None]":
    """KerasHub's model and tokenizer, with the weights and vocabulary of one of kbert's models.

    Their ``save_to_preset`` writes a preset. KerasHub stores neither labels nor thresholds. Its tokenizer treats rare
    characters differently (docs/parity.md), and words of more than 100 bytes are [UNK] whatever the `max_word_length`.

    Args:
        model_or_pipeline: an encoder, a masked language model, a classifier, a regressor, or a pipeline of one.
        tokenizer: Defaults to the tokenizer that the model was loaded with.

    Returns:
        (keras_hub model, keras_hub BertTokenizer). The model is a BertBackbone, or a BertMaskedLM or BertTextClassifier
        with its preprocessor. Without a vocabulary, the tokenizer and the preprocessor are None.

    Raises:
        ImportError: keras_hub is not installed.
        ValueError: a model that KerasHub cannot hold (the message says why).

    Example::

        masked_lm, _ = kbert.weights.to_keras_hub(kbert.load_pretrained("runs/pretrain", task="masked_lm"))
        masked_lm.save_to_preset("preset")
    """
    keras_hub = _import_keras_hub()
    model, tokenizer, settings = resolve_parts(model_or_pipeline, tokenizer, needs_tokenizer=False)
    model = merged(model)
    fields = CONFIG_NAMES.from_kbert(model.config)
    tensors = export_tensors(NAMES, model)
    check_held(NAMES, model, **_HEAD)
    tokenizer = None if tokenizer is None else _their_tokenizer(settings, tokenizer.vocabulary)
    theirs = backbone = keras_hub.models.BertBackbone(**fields, dtype="float32")
    name = {"masked_lm": "BertMaskedLM", "encoder": None}.get(model.task, "BertTextClassifier")
    if name is not None:
        preprocessor = getattr(keras_hub.models, f"{name}Preprocessor")
        length = settings.sequence_length
        head = {"preprocessor": None if tokenizer is None else preprocessor(tokenizer, sequence_length=length)}
        if model.task != "masked_lm":
            head |= {"num_classes": model.num_labels or 1, "dropout": 0.1 if model.dropout is None else model.dropout}
        theirs = getattr(keras_hub.models, name)(backbone, **head)
    for variable in theirs.weights:
        _, values = tensors[variable.path]
        variable.assign(values().reshape(variable.shape))  # its attention layers have a separate axis of heads
    return theirs, tokenizer


def names_preset(source: PathLike) -> bool:
    """Whether a source is a preset's directory, or a name like those of KerasHub's presets of BERT."""
    return is_preset(source) or bool(re.fullmatch(r"bert_\w+", str(source))) and not pathlib.Path(source).exists()


def write_preset(
    model: "BertModel", directory: PathLike, tokenizer: "BertTokenizer | None" = None, overwrite: bool = False
) -> None:
    """Writes what `to_keras_hub` returns. With `overwrite`, replaces a preset in the directory."""
    theirs, tokenizer = to_keras_hub(model, tokenizer)
    check_directory_is_free(directory, _PRESET_FILES, overwrite)

    def write(partial):
        theirs.save_to_preset(str(partial))
        if tokenizer is not None and model.task == "encoder":  # a task has it in its preprocessor
            tokenizer.save_to_preset(str(partial))

    write_directory(directory, write, needed=4 * model.count_params())


def _import_keras_hub():
    try:
        import keras_hub
    except ImportError as error:
        raise MissingPackage("this needs keras_hub: pip install keras-nlp", name="keras_hub") from error
    return keras_hub


def _opened(preset: str, tokenizer):
    """The model of a preset, and its tokenizer if the model has no preprocessor."""
    models, directory = _import_keras_hub().models, pathlib.Path(preset)
    task = read_json(directory / "task.json") if (directory / "task.json").is_file() else {}
    name = str(task.get("registered_name")).rpartition(">")[2]
    try:
        if name.startswith("Bert") and hasattr(models, name):
            return getattr(models, name).from_preset(preset), tokenizer
        backbone = models.BertBackbone.from_preset(preset, dtype="float32")
        if tokenizer is None and (not directory.is_dir() or (directory / "tokenizer.json").is_file()):
            tokenizer = models.BertTokenizer.from_preset(preset)
        return backbone, tokenizer
    except Exception as error:  # without a network, the exception depends on the versions of several libraries
        reason = (str(error) or repr(error)).splitlines()[0]
        raise (ValueError if directory.is_dir() else FileNotFoundError)(
            f"from_keras_hub: KerasHub could not load a BERT from the preset {preset!r} ({type(error).__name__}: "
            f"{reason}). Without a network, save the preset on a machine that has one (BertBackbone.from_preset(…)"
            ".save_to_preset(DIRECTORY), and BertTokenizer's), and pass the directory"
        ) from error


class _Variables:
    """The variables of a KerasHub model as a `TensorFile`; `path` is for messages."""

    def __init__(self, path: pathlib.Path, model: keras.Model, hidden_dim: int) -> None:
        self.path = path
        self._variables = {variable.path: variable for variable in model.weights}
        self.tensors = {}
        for name, variable in self._variables.items():
            shape = tuple(variable.shape)
            if "/self_attention_layer/" in name:  # without its axis of heads
                shape = (hidden_dim,) if name.endswith("/bias") else (hidden_dim, hidden_dim)
            self.tensors[name] = TensorInfo(shape, str(variable.dtype))

    def read(self, name: str) -> np.ndarray:
        values = ops.convert_to_numpy(self._variables[name]).astype("float32", copy=False)
        return values.reshape(self.tensors[name].shape)


def _checkpoint(model: Any, tokenizer: Any) -> TensorCheckpoint:
    """A KerasHub model as a checkpoint; `tokenizer` None: its preprocessor's."""
    where = pathlib.Path(f"keras_hub {type(model).__name__}")  # for messages
    backbone = getattr(model, "backbone", model)
    if type(backbone).__name__ != "BertBackbone":
        raise TypeError(
            "from_keras_hub: expected a keras_hub BertBackbone, a model with one, or a preset's name or path. "
            f"Received: {type(model).__name__}"
        )
    if any("lora_" in variable.path for variable in model.weights):
        raise ValueError("from_keras_hub: expected a model without LoRA. Received: one with; a preset has it merged")
    config = CONFIG_NAMES.to_kbert(backbone.get_config(), str(where))
    task, arguments = _task_of(model)
    preprocessor = None if model is backbone else model.preprocessor
    tokenizer = tokenizer or (preprocessor and preprocessor.tokenizer)
    settings = {}
    if tokenizer is not None:
        if (kind := type(tokenizer).__name__) != "BertTokenizer":
            raise TypeError(f"from_keras_hub: expected a keras_hub BertTokenizer as `tokenizer`. Received: {kind}")
        stored = tokenizer.get_config()
        settings = {ours: stored[its] for its, ours in _TOKENIZER_ARGUMENTS.items() if its in stored}
        settings["max_word_length"] = _MAX_WORD_LENGTH
    tensors = _Variables(where, model, config.hidden_dim)
    return TensorCheckpoint(
        path=where,
        config_path=where,
        names=NAMES,
        config_names=CONFIG_NAMES,
        description=ModelDescription(task, config, arguments, {"pooler": True}),
        settings=default_settings(task, config, settings, preprocessor and preprocessor.sequence_length),
        vocabulary=tokenizer and tokenizer.get_vocabulary(),
        tensors=tensors,
        stored_names={name: name for name in tensors.tensors},
        remarks=() if tokenizer else (NO_VOCABULARY,),
    ).check()


def _task_of(model: keras.Model) -> tuple[str, dict[str, Any]]:
    """Task and constructor arguments. Of other models than these two, kbert loads the backbone."""
    names = {cls.__name__ for cls in type(model).__mro__}
    if "BertMaskedLM" in names:
        return "masked_lm", {"tied": True, **_HEAD}
    if "BertTextClassifier" not in names:
        return "encoder", {}
    activation = getattr(model.activation, "__name__", model.activation)
    if activation not in (None, "linear"):
        raise ValueError(
            f"from_keras_hub: a classifier with activation={activation!r} gives no logits, which kbert's does. Rebuild "
            "it with activation=None."
        )
    if model.num_classes == 1:
        return "regression", {"dropout": model.dropout}
    return "classification", {"num_labels": model.num_classes, "dropout": model.dropout}


def _their_tokenizer(settings: "ModelSettings", vocabulary: list[str]) -> "keras_hub.models.BertTokenizer":
    import keras_hub

    wanted = settings.tokenizer
    if isinstance(wanted["special_tokens_in_text"], list):
        raise ValueError(
            "KerasHub's tokenizer has no special tokens of one's own. Expected True or False as "
            f"`special_tokens_in_text`. Received: {wanted['special_tokens_in_text']}"
        )
    arguments = {its: wanted[ours] for its, ours in _TOKENIZER_ARGUMENTS.items()}
    if arguments["strip_accents"] is None:
        arguments["strip_accents"] = wanted["lowercase"]
    return keras_hub.models.BertTokenizer(vocabulary=list(vocabulary), **arguments)
