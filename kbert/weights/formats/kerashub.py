"""Presets of KerasHub: `config.json`, `task.json`, `model.weights.h5`, `task.weights.h5`, the tokenizer and its assets.

Also its models in memory. The JSON files are read here as plain data: no class is looked up by a name from a file.
"""

import functools
import os
import pathlib
import reprlib

import keras
from keras import ops

from kbert.files import read_json
from kbert.models.lora import merged
from kbert.text.vocabulary import read_vocabulary
from kbert.weights.description import default_settings
from kbert.weights.formats.checkpoint import (
    NO_VOCABULARY,
    SETTINGS,
    StoredTokenizer,
    TensorCheckpoint,
    described,
    read_kbert_settings,
    write_kbert_settings,
)
from kbert.weights.formats.config_names import ConfigNames, entry
from kbert.weights.formats.export_tensors import check_head, check_pooler, check_single_label, export_tensors
from kbert.weights.formats.kerashub_models import (
    WEIGHTS,
    KerasHubVariables,
    kerashub_model,
    kerashub_preprocessor,
    kerashub_tokenizer,
    open_kerashub_weights,
)
from kbert.weights.formats.name_table import NameTable, TensorName
from kbert.weights.formats.registry import Format
from kbert.weights.load import load_pretrained
from kbert.weights.origin import Origin, set_origin
from kbert.weights.save import resolve_parts

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
        "initializer_stddev": 0.02,
        "position_embedding": "learned",
        "pooled_token": "first",
    },
    fixed_reason="BertBackbone has no such argument, and means",
    num_labels="num_classes",
)
_CONFIG, _TASK, _TOKENIZER, _PREPROCESSOR = "config.json", "task.json", "tokenizer.json", "preprocessor.json"
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


class KerasHubFormat(Format):
    """Presets of KerasHub: BertBackbone, BertMaskedLM, and BertTextClassifier (with one class for regression).

    KerasHub itself is imported to write a preset, and to read the weights of older Keras. Weights and vocabulary are
    written exactly, but KerasHub's tokenizer treats rare characters in its own way (docs/parity.md).
    """

    name = "kerashub"
    title = f"a KerasHub preset ({_CONFIG}, {WEIGHTS})"
    files = (_CONFIG, _TASK, _PREPROCESSOR, _TOKENIZER, "metadata.json", "*.weights.h5", "assets", SETTINGS)

    def recognises(self, path):
        """A preset of KerasHub or KerasNLP, of BERT or another model."""
        config = (path.parent if path.is_file() else path) / _CONFIG
        try:
            return config.is_file() and _class_of(read_json(config)) is not None
        except ValueError:
            return False

    def read(self, path, vocabulary=None):
        return read_kerashub_preset(path.parent if path.is_file() else path, vocabulary)

    def write(self, directory, model, settings, vocabulary, *, made_by=None):
        hub_model = build_kerashub_model(model, settings, vocabulary)
        hub_model.save_to_preset(str(directory))
        if vocabulary is not None and model.task == "encoder":
            kerashub_tokenizer(settings, vocabulary).save_to_preset(str(directory))
        write_kbert_settings(directory, settings)

    def reference_outputs(self, model, path, batch):
        import keras_hub

        if model.task == "masked_lm":
            theirs = keras_hub.models.BertMaskedLM.from_preset(str(path), preprocessor=None)
        elif model.task in ("classification", "regression"):
            theirs = keras_hub.models.BertTextClassifier.from_preset(str(path), preprocessor=None)
        else:
            theirs = keras_hub.models.BertBackbone.from_preset(str(path))
        backbone = getattr(theirs, "backbone", theirs)
        layers = ["embeddings_dropout"] + [f"transformer_layer_{i}" for i in range(model.config.num_layers)]
        states = keras.Model(backbone.input, [backbone.get_layer(name).output for name in layers])
        fed = {**batch, "padding_mask": batch["padding_mask"].astype("int32")}
        plain = {name: fed[name] for name in backbone.input}
        outputs = {
            "hidden_states": [ops.convert_to_numpy(x) for x in states(plain)],
            "pooled_output": ops.convert_to_numpy(backbone(plain)["pooled_output"]),
        }
        if model.task != "encoder":
            name = next(iter(model.output))
            values = ops.convert_to_numpy(theirs(fed if name == "mlm_logits" else plain))
            outputs[name] = values[:, 0] if name == "score" else values
        return f"keras_hub {keras_hub.__version__}", outputs


FORMAT = KerasHubFormat()


def build_kerashub_model(model, settings, vocabulary):
    """KerasHub's model with the weights of one of kbert's and, where it takes one, a preprocessor."""
    fields = CONFIG_NAMES.from_kbert(model.config)
    tensors = export_tensors(NAMES, model)
    check_single_label("kerashub", model)
    check_head("kerashub", model, _HEAD["head_activation"], _HEAD["head_layer_norm_epsilon"])
    check_pooler("kerashub", model, needed=True, reason="BertBackbone always has one")
    hub_model = kerashub_model(
        fields,
        model.task,
        num_classes=model.num_labels or 1,
        preprocessor=kerashub_preprocessor(model.task, settings, vocabulary),
        dropout=getattr(model, "dropout", 0.1),
    )
    for variable in hub_model.weights:
        shape, values = tensors.pop(variable.path)
        if tuple(variable.shape) != shape:
            raise ValueError(f"{variable.path}: expected {shape}. Received: {variable.shape}, of this keras_hub")
        variable.assign(values())
    return hub_model


# Reading.


def read_kerashub_preset(path: pathlib.Path, vocabulary=None) -> TensorCheckpoint:
    """Reads and checks everything but the values; `vocabulary` is a path, in place of the preset's own."""
    content = read_json(path / _CONFIG)
    if _class_of(content) != "BertBackbone":
        raise ValueError(f"{path / _CONFIG}: kbert builds BERT, a BertBackbone. Received: {_class_of(content)}")
    fields = entry(content, "config", dict, path / _CONFIG, {})
    task_fields = read_json(path / _TASK) if (path / _TASK).is_file() else {}
    tokenizer = _tokenizer_of(path, vocabulary)
    opened = functools.partial(open_kerashub_weights, path, NAMES)
    return _checkpoint(path, path / _CONFIG, fields, path / _TASK, task_fields, tokenizer, _length(path), opened)


def in_memory_checkpoint(model, tokenizer=None) -> TensorCheckpoint:
    """A KerasHub model in memory as a checkpoint; `tokenizer` None: its preprocessor's."""
    backbone = getattr(model, "backbone", model)
    if type(backbone).__name__ != "BertBackbone":
        raise TypeError(
            "from_keras_hub: expected a keras_hub BertBackbone, a model with one, or a preset's name or path. "
            f"Received: {type(model).__name__}"
        )
    preprocessor = None if model is backbone else model.preprocessor
    tokenizer = tokenizer or (preprocessor and preprocessor.tokenizer)
    if tokenizer is None:
        stored_tokenizer = StoredTokenizer(None, remarks=(NO_VOCABULARY,))
    elif type(tokenizer).__name__ != "BertTokenizer":
        raise TypeError(
            f"from_keras_hub: expected a keras_hub BertTokenizer as `tokenizer`. Received: {type(tokenizer).__name__}"
        )
    else:
        stored_tokenizer = StoredTokenizer(tokenizer.get_vocabulary(), _settings_of(tokenizer.get_config()))
    where = pathlib.Path(f"keras_hub {type(model).__name__}")
    task = {}
    if model is not backbone:
        names = ("num_classes", "dropout", "activation")
        fields = {name: value for name, value in model.get_config().items() if name in names}
        fields["activation"] = getattr(fields.get("activation"), "__name__", fields.get("activation"))
        task = {"class_name": f"keras_hub>{type(model).__name__}", "config": fields}
    length = preprocessor and preprocessor.sequence_length
    tensors = KerasHubVariables(where, model)
    return _checkpoint(where, where, backbone.get_config(), where, task, stored_tokenizer, length, lambda *_: tensors)


def _checkpoint(path, config_path, fields, task_path, task_content, tokenizer, length, open_weights):
    _refuse_quantised(fields, config_path)
    config = CONFIG_NAMES.to_kbert(fields, str(config_path))
    task, arguments, remarks = _task_of(task_content, task_path)
    stored = read_kbert_settings(path, task) or default_settings(task, config, {}, length)
    if stored.task.labels is not None and len(stored.task.labels) != arguments.get("num_labels"):
        stored = stored.replace(labels=None)
    tensors = open_weights(fields, config, task, arguments.get("num_labels", 1))
    return TensorCheckpoint(
        format=NAMES.format,
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


def _class_of(content):
    """The class that a config of KerasHub or KerasNLP names, without the package; None for another config."""
    for key in ("registered_name", "class_name"):
        package, _, name = str(content.get(key) or "").rpartition(">")
        if package in ("keras_hub", "keras_nlp"):
            return name
    return None


def _refuse_quantised(fields, path):
    dtype = fields.get("dtype") or {}
    kind = dtype.get("class_name", "DTypePolicy") if isinstance(dtype, dict) else "DTypePolicy"
    if kind != "DTypePolicy":
        raise ValueError(f"{path}: the weights are quantised ({kind}); kbert reads float32, float16 and bfloat16.")


def _task_of(content, path):
    """Task, constructor arguments and lines for the report, from the content of task.json."""
    if not content:
        return "encoder", {}, ()
    name, fields = _class_of(content), entry(content, "config", dict, path, {})
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
    number, dropout = fields.get("num_classes"), {"dropout": fields.get("dropout", 0.1)}
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
    name, fields = _class_of(content), entry(content, "config", dict, path / _TOKENIZER, {})
    if name not in (None, "BertTokenizer"):
        remark = f"its {name} is not a tokenizer that kbert has: the model takes token ids, but no strings"
        return StoredTokenizer(None, remarks=(remark,))
    return StoredTokenizer(tokens, _settings_of(fields))


def _settings_of(fields):
    return {argument: fields[its] for its, argument in _TOKENIZER_ARGUMENTS.items() if its in fields}


def _merged(stored, stated):
    """Tokenizer settings: the preset's, completed from the file that kbert wrote beside it."""
    merged = {"max_word_length": _MAX_WORD_LENGTH, **stored, **stated}
    if "strip_accents" in stored and stored["strip_accents"] is None and merged["strip_accents"] == merged["lowercase"]:
        merged["strip_accents"] = None  # "as lowercase", for which the preset has an explicit value
    return merged


def _length(path):
    """The sequence length of the preset's preprocessor, or None."""
    if not (path / _PREPROCESSOR).is_file():
        return None
    fields = entry(read_json(path / _PREPROCESSOR), "config", dict, path / _PREPROCESSOR, {})
    return entry(fields, "sequence_length", int, path / _PREPROCESSOR)


# Models in memory.


def from_keras_hub(source, tokenizer=None, task: str | None = None, **overrides):
    """A kbert model with the weights of a KerasHub model, and with its tokenizer.

    The values are copied: training one model does not change the other.

    Args:
        source: a keras_hub BertBackbone, BertMaskedLM, BertTextClassifier, or another model, of which the BertBackbone
            is taken. Or a preset, by its path or name (such as "bert_tiny_en_uncased"), of which BertBackbone and
            BertTokenizer are taken. KerasHub downloads a preset that it does not have.
        tokenizer: a keras_hub BertTokenizer; None: the tokenizer of the model's preprocessor, if it has one.
        task, **overrides: see `kbert.load_pretrained`.

    Returns:
        The model of the task, such as `kbert.BertEncoder`. Its ``pretrained.tokenizer`` is a `kbert.BertTokenizer`.

    Raises:
        ImportError: keras_hub is not installed.
        FileNotFoundError: KerasHub cannot load a preset of this name.
        TypeError: `source` is something else.
        ValueError: a model that kbert cannot represent (the message says why).

    Example::

        backbone = keras_hub.models.BertBackbone.from_preset("bert_tiny_en_uncased")
        encoder = kbert.weights.from_keras_hub(backbone)
    """
    if isinstance(source, str | os.PathLike):
        source, tokenizer = _preset(os.fspath(source), tokenizer)
    model = load_pretrained(in_memory_checkpoint(source, tokenizer), task, **overrides)
    set_origin(model, Origin(f"keras_hub {type(source).__name__}", None))
    return model


def to_keras_hub(model_or_pipeline, tokenizer=None):
    """KerasHub's model and tokenizer, with the weights and vocabulary of one of kbert's models.

    Args:
        model_or_pipeline: an encoder, a masked language model, a classifier, a regressor, or a pipeline of one.
        tokenizer: `kbert.BertTokenizer` of a model; None: the one it was loaded with.

    Returns:
        (keras_hub model, keras_hub BertTokenizer). The model is a BertBackbone, or a BertMaskedLM or BertTextClassifier
        with its preprocessor. Without a vocabulary, the tokenizer and the preprocessor are None.

    Raises:
        ImportError: keras_hub is not installed.
        ValueError: a model that KerasHub cannot hold (the message says why).

    Example::

        backbone, tokenizer = kbert.weights.to_keras_hub(encoder)
    """
    model, tokenizer, settings = resolve_parts(model_or_pipeline, tokenizer, needs_tokenizer=False)
    vocabulary = None if tokenizer is None else tokenizer.vocabulary
    theirs = build_kerashub_model(merged(model), settings, vocabulary)
    return theirs, None if vocabulary is None else kerashub_tokenizer(settings, vocabulary)


def _preset(name, tokenizer):
    try:
        import keras_hub
    except ImportError as error:
        raise ImportError("from_keras_hub needs keras_hub: pip install keras-nlp", name="keras_hub") from error
    try:
        backbone = keras_hub.models.BertBackbone.from_preset(name)
        return backbone, tokenizer or keras_hub.models.BertTokenizer.from_preset(name)
    except Exception as error:  # without a network, the exception depends on the versions of several libraries
        reason = (str(error) or repr(error)).splitlines()[0]
        raise FileNotFoundError(
            f"from_keras_hub: KerasHub could not load a BERT from the preset {name!r} ({type(error).__name__}: "
            f"{reason}). Without a network: save the preset where there is one "
            "(keras_hub.models.BertBackbone.from_preset(…).save_to_preset(DIRECTORY), and the same of BertTokenizer), "
            "and pass the directory."
        ) from error
