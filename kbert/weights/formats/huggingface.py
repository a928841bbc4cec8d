"""Model directories, in the form of Hugging Face's transformers: `config.json`, `model.safetensors`, tokenizer files.

kbert's own have a key ``kbert`` in config.json, and kbert.json. Directories without them are read by their tensors,
with pickles, shards and old names.
"""

import dataclasses
import functools
import logging
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from kbert.aliases import PathLike
from kbert.config import BertConfig
from kbert.files import write_json
from kbert.layers.sinusoidal_positions import SinusoidalPositions
from kbert.pipelines.settings import ModelSettings
from kbert.text.vocabulary import SPECIAL_TOKENS
from kbert.weights.description import ModelDescription, check_settings, default_settings
from kbert.weights.files.safetensors_file import write_safetensors
from kbert.weights.files.tensor_file import TensorFile
from kbert.weights.formats.checkpoint import PRETRAINED_TASKS, StoredTokenizer, TensorCheckpoint
from kbert.weights.formats.config_names import entry
from kbert.weights.formats.export_tensors import export_tensors
from kbert.weights.formats.huggingface_config import (
    CLASSES,
    CONFIG_NAMES,
    MULTI_LABEL,
    OWN,
    ModelConfig,
    config_json,
    read_model_config,
    transformers_class,
)
from kbert.weights.formats.huggingface_tokenizer import FILES as TOKENIZER_FILES
from kbert.weights.formats.huggingface_tokenizer import read_huggingface_tokenizer, write_huggingface_tokenizer
from kbert.weights.formats.huggingface_weights import (
    BIAS,
    CONFIG,
    DECODER,
    DECODER_BIAS,
    NAMES,
    OLD_CONFIG,
    PICKLE,
    POOLER,
    POSITIONS,
    TABLE,
    WEIGHTS,
    current_names,
    find_huggingface_weights,
    is_tied,
    open_huggingface_weights,
)
from kbert.weights.formats.kbert_json import KBERT_JSON, check_hashes, write_kbert_json
from kbert.weights.formats.model_card import README, model_card
from kbert.weights.formats.name_table import OWN_NAMES
from kbert.weights.formats.sentence_transformers import FILES as EMBEDDING_FILES
from kbert.weights.formats.sentence_transformers import (
    lowercases,
    read_length,
    read_pooling,
    write_sentence_transformers,
)

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel

_LOGGER = logging.getLogger("kbert")
_REFUSED = {  # config field → (the values that kbert supports, why no other)
    "position_embedding_type": (("absolute",), "kbert's positions are absolute, as the paper's"),
    "add_cross_attention": ((False,), "kbert has no cross attention: it builds encoders, not encoder-decoders"),
    "is_encoder_decoder": ((False,), "kbert builds encoders, not encoder-decoders"),
    "pruned_heads": (({}, []), "pruned heads leave layers of different widths, which kbert does not build"),
    "quantization_config": ((), "the weights are quantised; kbert reads float32, float16 and bfloat16"),
}
STORAGE_DTYPES = ("float32", "float16", "bfloat16")
TITLE = f"a Hugging Face directory ({CONFIG} or {OLD_CONFIG}, {WEIGHTS} or {PICKLE})"
FILES = (CONFIG, WEIGHTS, *TOKENIZER_FILES, *EMBEDDING_FILES, README, KBERT_JSON)


def recognizes(path: pathlib.Path) -> bool:
    directory = _directory_of(path)
    is_googles = path.is_dir() and any(path.glob("*.ckpt*.index"))  # the old config is of that checkpoint
    has_config = (directory / CONFIG).is_file() or ((directory / OLD_CONFIG).is_file() and not is_googles)
    return has_config and find_huggingface_weights(path) is not None


# Reading.


def read(path: pathlib.Path, vocabulary: PathLike | None = None) -> TensorCheckpoint:
    """Reads a directory; the tensors or, where heads share a name, ``architectures`` in the config decide the task.

    The key ``kbert`` is used for what transformers' fields cannot express, unless the model has another task by now.
    """
    directory = _directory_of(path)
    config = read_model_config(directory / (CONFIG if (directory / CONFIG).is_file() else OLD_CONFIG))
    kind = _check_kind(config)
    check_hashes(directory)
    tensors = open_huggingface_weights(path)
    tokenizer = read_huggingface_tokenizer(directory, vocabulary)
    if lowercases(directory) and not tokenizer.settings.get("lowercase", True):
        tokenizer.settings.update(lowercase=True, strip_accents=bool(tokenizer.settings.get("strip_accents")))
    if kind == OWN:  # what transformers' BERT cannot compute has kbert's variable paths as names
        names, ignored, pooling, remarks = {name: name for name in tensors.tensors}, set(), {}, []
        description = config.own
    else:
        names, ignored = current_names(tensors)
        pooling, remarks = read_pooling(directory)
        if kind is None:
            _check_names(tensors, names, config)
            remarks.append("the config does not say which model it is; the names of the tensors are BERT's")
        description = _description(config, tensors, names, ignored, pooling, remarks)
    settings = _settings(config, description, tokenizer, pooling, remarks)
    return TensorCheckpoint(
        path=path,
        config_path=config.path,
        names=OWN_NAMES if kind == OWN else NAMES,
        config_names=CONFIG_NAMES,
        description=description,
        settings=settings,
        other_options=pooling,
        vocabulary=tokenizer.vocabulary,
        tensors=tensors,
        stored_names=names,
        ignored=frozenset(ignored),
        remarks=(*remarks, *tokenizer.remarks),
    ).check()


def read_description(directory: pathlib.Path) -> dict[str, Any]:
    """Reads a model directory without weights: ``description, settings, vocabulary, lora_layers``."""
    config = read_model_config(directory / CONFIG)
    if config.own is None:
        raise ValueError(f"{config.path} lacks the key `{OWN}`, by which kbert describes a model without its weights")
    tokenizer = read_huggingface_tokenizer(directory)
    settings = _settings(config, config.own, tokenizer, {}, [])
    check_settings(config.path, settings, config.own)
    return {
        "description": config.own,
        "settings": settings,
        "vocabulary": tokenizer.vocabulary,
        "lora_layers": config.lora_layers,
    }


def _directory_of(path: pathlib.Path) -> pathlib.Path:
    return path.parent if path.is_file() else path


def _check_kind(config: ModelConfig) -> str | None:
    """The kind of model that a config states, or None if it states neither kind nor class; ValueError for others."""
    fields, architecture = config.fields, config.architecture
    kind = fields.get("model_type") or ("bert" if architecture in CLASSES else architecture)
    if kind not in (None, "bert") and (kind != OWN or config.own is None):
        raise ValueError(f'{config.path}: kbert builds BERT, model_type "bert". Received: {kind!r}')
    for name, (possible, reason) in _REFUSED.items():
        if fields.get(name) is not None and fields[name] not in possible:
            raise ValueError(f"{config.path}: {name}={fields[name]!r} cannot be represented: {reason}.")
    return kind


def _check_names(tensors: TensorFile, names: dict[str, str], config: ModelConfig) -> None:
    """Raises ValueError unless the tensors, by their names, are a BERT's.

    An encoder that was saved by itself could also be a RoBERTa's, with one segment, or an ELECTRA's, without a pooler.
    """
    by_itself = not any(name.startswith("bert.") for name in tensors.tensors)
    if TABLE not in names or (by_itself and (POOLER not in names or config.config.num_segments == 1)):
        raise ValueError(
            f"{config.path} names no model, and the tensors in {tensors.path.name} need not be a BERT's. If it is one, "
            f'add "model_type": "bert" to {config.path.name}. Received: {", ".join(sorted(tensors.tensors)[:3])} …'
        )


def _description(
    config: ModelConfig,
    tensors: TensorFile,
    names: dict[str, str],
    ignored: set[str],
    pooling: Mapping[str, Any],
    remarks: list[str],
) -> ModelDescription:
    """The model as kbert described it, updated by transformers' fields and the tensors.

    Moves the tensors that kbert does not need from `names` to `ignored`, and appends to `remarks` how it decided.
    """
    fields = config.fields
    task = _task_of(config, tensors, names, remarks)
    known = ModelDescription.argument_names(task)
    own = config.own if config.own is not None and config.own.task == task else None
    arguments = dict(own.arguments) if own else {}
    arguments |= {name: value for name, value in pooling.items() if name in known}
    if "tied" in known:
        arguments["tied"] = is_tied(tensors, names, entry(fields, "tie_word_embeddings", bool, config.path, True))
        if arguments["tied"] and DECODER in names:
            ignored.add(names.pop(DECODER))
    if "num_labels" in known:
        arguments["num_labels"] = tensors.tensors[names["classifier.weight"]].shape[0]
    if "multi_label" in known:
        arguments["multi_label"] = fields.get("problem_type") == MULTI_LABEL
    if "dropout" in known and "classifier_dropout" in fields:
        arguments["dropout"] = fields["classifier_dropout"]
    encoder = {"pooler": POOLER in names}
    if own and (POOLER in names or not own.has_pooler):
        encoder = own.encoder_arguments
    architecture = config.config
    if architecture.position_embedding == "sinusoidal" and POSITIONS in names:
        table = tensors.read(names[POSITIONS])
        has_size = table.shape == (architecture.max_sequence_length, architecture.hidden_dim)
        precision = 1e-4 * architecture.initializer_stddev  # sines of another machine are rounded differently
        if has_size and np.allclose(table, _sines(architecture), rtol=0, atol=precision):
            ignored.add(names.pop(POSITIONS))  # transformers has a table where kbert has a function
        else:
            architecture = dataclasses.replace(architecture, position_embedding="learned")
            remarks.append(
                "the position table was trained after kbert saved it, so positions are learned instead of sinusoidal"
            )
    return ModelDescription(task, architecture, arguments, encoder)


def _task_of(config: ModelConfig, tensors: TensorFile, names: dict[str, str], remarks: list[str]) -> str:
    claimed = CLASSES.get(config.architecture)
    masked_lm = "cls.predictions.transform.dense.weight" in names
    next_sentence = "cls.seq_relationship.weight" in names
    if masked_lm or next_sentence:
        return PRETRAINED_TASKS[masked_lm, next_sentence]
    if "qa_outputs.weight" in names:
        return "span"
    if "classifier.weight" not in names:
        if claimed not in (None, "encoder"):
            remarks.append(f"the config says {config.architecture}, but the weights are an encoder's alone")
        return "similarity" if config.own is not None and config.own.task == "similarity" else "encoder"
    if claimed in ("tagging", "multiple_choice"):
        return claimed
    if claimed != "classification":
        task = "classification" if POOLER in names else "tagging"
        remarks.append(f"the config does not say which class it is; by its pooler, or the lack of one, it is {task}")
        if task == "tagging":
            return task
    rows, kind = tensors.tensors[names["classifier.weight"]].shape[0], config.fields.get("problem_type")
    if kind == "regression" and rows > 1:
        raise ValueError(
            f"{config.path}: problem_type={kind!r} with {rows} outputs cannot be represented: kbert's regressor gives "
            "one number. (Without problem_type it is loaded, as a classifier.)"
        )
    had_one_label = config.own is not None and config.own.arguments.get("num_labels") == 1
    return "regression" if rows == 1 and kind != MULTI_LABEL and not had_one_label else "classification"


def _sines(config: BertConfig) -> np.ndarray:
    positions = SinusoidalPositions(config.hidden_dim, config.initializer_stddev, dtype="float32")
    return ops.convert_to_numpy(positions(ops.arange(config.max_sequence_length)))


def _settings(
    config: ModelConfig,
    description: ModelDescription,
    tokenizer: StoredTokenizer,
    pooling: Mapping[str, Any],
    remarks: list[str],
) -> ModelSettings:
    """The settings as kbert stored them, updated by what other libraries changed, which `remarks` and the log say."""
    stored, changes = config.settings, []
    length = read_length(config.path.parent, is_kberts=stored is not None)
    if stored is not None:
        known, longest = stored.sequence_length, config.config.max_sequence_length
        if 0 < length != known and max(length, known) <= longest:  # not 1e30, transformers' default
            changes.append(f"`sequence_length` is {known}, but the tokenizer's files say {length}, which is used")
            stored = stored.replace(sequence_length=length)
        length = stored.sequence_length
    if stored is None or stored.task.name != description.task:
        stored = default_settings(description.task, config.config, stored and stored.tokenizer, length)
    own = stored.tokenizer
    stated = {"tokenizer": {**own, **tokenizer.settings}}
    if added := tokenizer.settings.get("special_tokens_in_text"):  # the library's files do not say it of BERT's tokens
        read = own.get("special_tokens_in_text", False)
        read = {True: SPECIAL_TOKENS, False: ()}[read] if isinstance(read, bool) else read
        kept = [token for token in read if token in (*SPECIAL_TOKENS, *added)]
        stated["tokenizer"]["special_tokens_in_text"] = list(dict.fromkeys([*kept, *added]))
    stated |= {name: value for name, value in pooling.items() if name in stored.task.option_names()}
    settings = config.with_labels(stored.replace(**stated), description.arguments)
    if stored.task.thresholds is not None and settings.task.thresholds is None:
        changes.append("`id2label` or `problem_type` changed, so the stored thresholds are dropped")
    for change in changes:
        _LOGGER.warning("%s: %s", config.path, change)
    remarks.extend(changes)
    return settings


# Writing.


def write(
    directory: pathlib.Path,
    model: "BertModel",
    settings: ModelSettings,
    vocabulary: list[str] | None,
    *,
    made_by: Mapping[str, Any] | None = None,
    storage_dtype: str = "float32",
) -> None:
    """Writes a directory. `made_by` goes into kbert.json; `storage_dtype` is the type of the weights on disk."""
    if storage_dtype not in STORAGE_DTYPES:
        raise ValueError(f"`storage_dtype` must be one of {STORAGE_DTYPES}. Received: {storage_dtype!r}")
    description = ModelDescription.from_model(model)
    write_description_files(directory, description, settings, vocabulary, storage_dtype=storage_dtype)
    is_theirs = transformers_class(description) is not None
    own = {v.path: (tuple(v.shape), functools.partial(ops.convert_to_numpy, v)) for v in model.weights}
    tensors = _their_tensors(model) if is_theirs else own
    dtypes = {name: storage_dtype for name in tensors} | {v.path: "int8" for v in model.weights if v.dtype == "int8"}
    write_safetensors(directory / WEIGHTS, tensors, dtypes, format="pt")
    if is_theirs:
        write_sentence_transformers(directory, description, settings)
    card = model_card(description, settings, model.count_params())
    (directory / README).write_text(card, encoding="utf-8")
    write_kbert_json(directory, model.count_params(), made_by)


def write_description_files(
    directory: pathlib.Path,
    description: ModelDescription,
    settings: ModelSettings,
    vocabulary: Sequence[str] | None,
    **more: Any,
) -> None:
    """Writes config.json and the files of the tokenizer; `more` goes into the key ``kbert``."""
    write_json(directory / CONFIG, config_json(description, settings, **more))
    if vocabulary is not None:
        segments = description.config.num_segments
        write_huggingface_tokenizer(directory, settings.tokenizer, vocabulary, settings.sequence_length, segments)


def _their_tensors(model: "BertModel") -> dict[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]]:
    tensors = export_tensors(NAMES, model)
    if model.task in ("pretraining", "masked_lm") and not model.tied:
        tensors[DECODER_BIAS] = tensors[BIAS]  # the library computes with it, but needs the other one too
    config = model.config
    if config.position_embedding == "sinusoidal":
        tensors[POSITIONS] = (config.max_sequence_length, config.hidden_dim), lambda: _sines(config)
    return tensors
