"""KerasHub presets: `config.json`, `task.json`, `model.weights.h5`, `task.weights.h5`, the tokenizer and its assets.

The JSON files are read here as plain data: no class is looked up by a name from a file.
"""

import functools
import pathlib
import reprlib

from kbert.files import read_json
from kbert.text.vocabulary import read_vocabulary
from kbert.weights.formats.kbert_settings import read_kbert_settings
from kbert.weights.formats.kerashub.names import CONFIG_NAMES, NAMES
from kbert.weights.formats.kerashub.weights_file import KerasHubVariables, open_kerashub_weights
from kbert.weights.formats.tensor_checkpoint import NO_VOCABULARY, TensorCheckpoint, default_settings, described
from kbert.weights.json_fields import entry

CONFIG, TASK, TOKENIZER, PREPROCESSOR = "config.json", "task.json", "tokenizer.json", "preprocessor.json"
VOCABULARY = "assets/tokenizer/vocabulary.txt"
TASKS = {"BertMaskedLM": "masked_lm", "BertTextClassifier": "classification", "BertClassifier": "classification"}
# What KerasHub's masked-LM head computes, independently of the backbone (keras_hub 0.32, bert_masked_lm.py).
HEAD = {"head_activation": "gelu_erf", "head_layer_norm_epsilon": 1e-5}
MAX_WORD_LENGTH = 100  # bytes, of tensorflow-text's FastWordpieceTokenizer as KerasHub uses it
_TOKENIZER_ARGUMENTS = {
    "lowercase": "lowercase",
    "strip_accents": "strip_accents",
    "split_on_cjk": "split_on_cjk",
    "special_tokens_in_strings": "special_tokens_in_text",
}


def is_kerashub_preset(path) -> bool:
    """Whether the path is a preset of KerasHub or KerasNLP, of BERT or another model."""
    config = pathlib.Path(path) / CONFIG
    if not config.is_file():
        return False
    try:
        return _class_of(read_json(config)) is not None
    except ValueError:
        return False


def read_kerashub_preset(path, vocabulary=None) -> TensorCheckpoint:
    """Reads and checks everything but the values; `vocabulary` is a path, in place of the preset's own."""
    path = pathlib.Path(path)
    content = read_json(path / CONFIG)
    if _class_of(content) != "BertBackbone":
        raise ValueError(f"{path / CONFIG}: kbert builds BERT, a BertBackbone. Received: {_class_of(content)}")
    fields = entry(content, "config", dict, path / CONFIG, {})
    task_fields = read_json(path / TASK) if (path / TASK).is_file() else {}
    tokenizer = _tokenizer_of(path, vocabulary)
    opened = functools.partial(open_kerashub_weights, path)
    return _checkpoint(path, path / CONFIG, fields, path / TASK, task_fields, tokenizer, _length(path), opened)


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
    named = (None, {}, (NO_VOCABULARY,)) if tokenizer is None else _tokenizer_in_memory(tokenizer)
    where = pathlib.Path(f"keras_hub {type(model).__name__}")
    task = {}
    if model is not backbone:
        names = ("num_classes", "dropout", "activation")
        fields = {name: value for name, value in model.get_config().items() if name in names}
        fields["activation"] = getattr(fields.get("activation"), "__name__", fields.get("activation"))
        task = {"class_name": f"keras_hub>{type(model).__name__}", "config": fields}
    length = preprocessor and preprocessor.sequence_length
    fields = backbone.get_config()
    return _checkpoint(where, where, fields, where, task, named, length, lambda *_: KerasHubVariables(where, model))


def _checkpoint(path, config_path, fields, task_path, task_content, tokenizer, length, open_weights):
    _refuse_quantised(fields, config_path)
    config = CONFIG_NAMES.to_kbert(fields, str(config_path))
    task, arguments, remarks = _task_of(task_content, task_path)
    tokens, settings, tokenizer_remarks = tokenizer
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
        settings=stored.replace(tokenizer=_merged(stored.tokenizer, settings)),
        vocabulary=tokens,
        tensors=tensors,
        stored_names={name: name for name in tensors.tensors},
        remarks=(*remarks, *tokenizer_remarks),
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
    task = TASKS.get(name)
    if task is None:
        return "encoder", {}, (f"a preset of {name}: its backbone is what kbert loads",)
    if task == "masked_lm":
        return task, {"tied": True, **HEAD}, ()
    if fields.get("activation") not in (None, "linear"):
        raise ValueError(
            f"{path}: a classifier with activation={fields['activation']!r} gives no logits, which kbert's "
            "does. Rebuild it with activation=None."
        )
    number, dropout = fields.get("num_classes"), {"dropout": fields.get("dropout", 0.1)}
    if type(number) is not int or number < 1:
        raise ValueError(f"{path}: `num_classes` must be a positive integer. Received: {reprlib.repr(number)}")
    return ("regression", dropout, ()) if number == 1 else (task, {"num_labels": number, **dropout}, ())


def _tokenizer_of(path, vocabulary):
    """Tokens, BertTokenizer's arguments and lines for the report."""
    if vocabulary is not None:
        tokens = read_vocabulary(vocabulary)
    elif (path / VOCABULARY).is_file():
        tokens = read_vocabulary(path / VOCABULARY)
    else:
        return None, {}, (NO_VOCABULARY,)
    content = read_json(path / TOKENIZER) if (path / TOKENIZER).is_file() else {}
    name, fields = _class_of(content), entry(content, "config", dict, path / TOKENIZER, {})
    if name not in (None, "BertTokenizer"):
        return None, {}, (f"its {name} is not a tokenizer that kbert has: the model takes token ids, but no strings",)
    return tokens, _settings_of(fields), ()


def _settings_of(fields):
    return {argument: fields[its] for its, argument in _TOKENIZER_ARGUMENTS.items() if its in fields}


def _tokenizer_in_memory(tokenizer):
    if type(tokenizer).__name__ != "BertTokenizer":
        raise TypeError(
            f"from_keras_hub: expected a keras_hub BertTokenizer as `tokenizer`. Received: {type(tokenizer).__name__}"
        )
    return tokenizer.get_vocabulary(), _settings_of(tokenizer.get_config()), ()


def _merged(stored, stated):
    """Tokenizer settings: the preset's, completed from the file that kbert wrote beside it."""
    merged = {"max_word_length": MAX_WORD_LENGTH, **stored, **stated}
    if "strip_accents" in stored and stored["strip_accents"] is None and merged["strip_accents"] == merged["lowercase"]:
        merged["strip_accents"] = None  # "as lowercase", for which the preset has an explicit value
    return merged


def _length(path):
    """The sequence length of the preset's preprocessor, or None."""
    if not (path / PREPROCESSOR).is_file():
        return None
    fields = entry(read_json(path / PREPROCESSOR), "config", dict, path / PREPROCESSOR, {})
    return entry(fields, "sequence_length", int, path / PREPROCESSOR)
