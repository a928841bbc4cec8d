"""Hugging Face directories: `config.json`, the weights, the tokenizer's files."""

import dataclasses
import pathlib
import reprlib

from kbert.config import POOLED_TOKENS
from kbert.files import read_json, read_small
from kbert.weights.files.tensor_file import TensorFile
from kbert.weights.formats.huggingface.names import CONFIG_NAMES, NAMES
from kbert.weights.formats.huggingface.tokenizer import read_huggingface_tokenizer
from kbert.weights.formats.huggingface.weights_file import (
    current_names,
    has_huggingface_weights,
    is_tied,
    open_huggingface_weights,
)
from kbert.weights.formats.kbert_settings import read_kbert_settings
from kbert.weights.formats.tensor_checkpoint import TensorCheckpoint, default_settings, described
from kbert.weights.json_fields import entry

CONFIG = "config.json"
CLASSES = {  # the library's class → task
    "BertModel": "encoder",
    "BertForPreTraining": "pretraining",
    "BertForMaskedLM": "masked_lm",
    "BertLMHeadModel": "masked_lm",
    "BertForNextSentencePrediction": "next_sentence",
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "span",
    "BertForMultipleChoice": "multiple_choice",
}
_REFUSED = {  # config field → (the values that kbert supports, why no other)
    "position_embedding_type": (("absolute",), "kbert's positions are absolute, as the paper's"),
    "add_cross_attention": ((False,), "kbert has no cross attention: it builds encoders, not encoder-decoders"),
    "is_encoder_decoder": ((False,), "kbert builds encoders, not encoder-decoders"),
    "pruned_heads": (({}, []), "pruned heads leave layers of different widths, which kbert does not build"),
    "quantization_config": ((), "the weights are quantised; kbert reads float32, float16 and bfloat16"),
}
POOLED_TOKEN = "kbert_pooled_token"  # of a model without a pooler, where it has no meaning for the library
MULTI_LABEL = "multi_label_classification"  # the value of problem_type
_TASK_FIELDS = ("classification", "regression", "tagging")  # tasks whose labels the config names


def is_huggingface_directory(path) -> bool:
    """Whether a path is a checkpoint of transformers: its directory, or one of the files of weights."""
    path = pathlib.Path(path)
    return (_directory_of(path) / CONFIG).is_file() and has_huggingface_weights(path)


def read_huggingface_directory(path, vocabulary=None) -> TensorCheckpoint:
    """Reads and checks everything but the values; `path` is the directory, or the file of weights to read.

    The tensors decide the task. If heads share a name (sequence and token classification, multiple choice),
    ``architectures`` in the config decides.
    """
    path = pathlib.Path(path)
    directory = _directory_of(path)
    fields = read_json(directory / CONFIG)
    _refuse(fields, directory / CONFIG)
    config = CONFIG_NAMES.to_kbert(fields, str(directory / CONFIG))
    tensors = open_huggingface_weights(path)
    names, ignored = current_names(tensors)
    pooler = "bert.pooler.dense.weight" in names
    if not pooler and fields.get(POOLED_TOKEN) in POOLED_TOKENS:
        config = dataclasses.replace(config, pooled_token=fields[POOLED_TOKEN])
    task, remarks = _task_of(fields, tensors, names, directory / CONFIG)
    arguments = _arguments(task, fields, tensors, names, directory / CONFIG)
    if arguments.get("tied"):
        ignored |= {names.pop("cls.predictions.decoder.weight", None)} - {None}
    tokenizer = read_huggingface_tokenizer(directory, vocabulary)
    pooling, more = _embedding(directory)
    return TensorCheckpoint(
        format=NAMES.format,
        path=path,
        config_path=directory / CONFIG,
        names=NAMES,
        config_names=CONFIG_NAMES,
        description=described(task, config, pooler=pooler, **arguments),
        settings=_settings(task, fields, config, arguments, tokenizer, pooling, directory),
        other_options=pooling,
        vocabulary=tokenizer.vocabulary,
        tensors=tensors,
        stored_names=names,
        ignored=frozenset(ignored),
        remarks=(*remarks, *tokenizer.remarks, *more),
    ).check()


def _directory_of(path):
    return path.parent if path.is_file() else path


def _refuse(fields, path):
    kind = fields.get("model_type", "bert" if _architecture(fields) in CLASSES else None)
    if kind != "bert":
        raise ValueError(f'{path}: kbert builds BERT, model_type "bert". Received: {kind!r}')
    for name, (possible, reason) in _REFUSED.items():
        if fields.get(name) is not None and fields[name] not in possible:
            raise ValueError(f"{path}: {name}={fields[name]!r} cannot be represented: {reason}.")


def _architecture(fields):
    names = fields.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None


def _task_of(fields, tensors: TensorFile, names, path):
    claimed = CLASSES.get(_architecture(fields))
    masked_lm = "cls.predictions.transform.dense.weight" in names
    next_sentence = "cls.seq_relationship.weight" in names
    if masked_lm or next_sentence:
        both = masked_lm and next_sentence
        return ("pretraining" if both else "masked_lm" if masked_lm else "next_sentence"), ()
    if "qa_outputs.weight" in names:
        return "span", ()
    if "classifier.weight" in names:
        return _classifier_task(fields, _num_labels(tensors, names), claimed, names, path)
    if claimed not in (None, "encoder"):
        return "encoder", (f"the config says {_architecture(fields)}, but the weights are an encoder's alone",)
    return "encoder", ()


def _num_labels(tensors, names):
    shape = tensors.tensors[names["classifier.weight"]].shape
    if len(shape) != 2:
        raise ValueError(f"{tensors.path}: classifier.weight must have the shape [labels, hidden]. Received: {shape}")
    return shape[0]


def _classifier_task(fields, rows, claimed, names, path):
    kind = fields.get("problem_type")
    if claimed in ("tagging", "multiple_choice"):
        return claimed, ()
    remarks = ()
    if claimed != "classification":
        if "bert.pooler.dense.weight" not in names:
            return "tagging", ("the config does not say which class it is; a classifier without pooler: tagging",)
        remarks = ("the config does not say which class it is; a classifier with pooler: of sequences",)
    if kind == "regression" and rows > 1:
        raise ValueError(
            f"{path}: problem_type={kind!r} with {rows} outputs cannot be represented: kbert's regressor gives one "
            "number. (Without problem_type it is loaded, as a classifier.)"
        )
    return ("regression" if rows == 1 and kind != MULTI_LABEL else "classification"), remarks


def _arguments(task, fields, tensors, names, path):
    if task in ("pretraining", "masked_lm"):
        return {"tied": is_tied(tensors, names, entry(fields, "tie_word_embeddings", bool, path, True))}
    arguments = {}
    if task in ("classification", "tagging"):
        arguments["num_labels"] = _num_labels(tensors, names)
    if task == "classification" and fields.get("problem_type") == MULTI_LABEL:
        arguments["multi_label"] = True
    if task in (*_TASK_FIELDS, "multiple_choice") and fields.get("classifier_dropout") is not None:
        arguments["dropout"] = fields["classifier_dropout"]
    return arguments


def _settings(task, fields, config, arguments, tokenizer, pooling, directory):
    stored = read_kbert_settings(directory, task) or default_settings(task, config, {}, _length(directory))
    stated = {"tokenizer": {**stored.tokenizer, **tokenizer.settings}}
    stated |= {name: value for name, value in pooling.items() if name in stored.task.option_names()}
    if "num_labels" in arguments:
        stated["labels"] = _labels(fields, arguments["num_labels"], directory / CONFIG)
        has_other_labels = stated["labels"] != (stored.task.labels and list(stored.task.labels))
        if task == "classification" and (has_other_labels or not arguments.get("multi_label")):
            stated["thresholds"] = None  # config.json was changed by another program since
    return stored.replace(**stated)


def _length(directory):
    """The sequence length in the settings of sentence-transformers, or None."""
    path = directory / "sentence_bert_config.json"
    return entry(read_json(path), "max_seq_length", int, path) if path.is_file() else None


def _embedding(directory):
    """The pooling of sentence-transformers, if the directory is one of its models; lines for the report."""
    path = directory / "1_Pooling" / CONFIG
    if not path.is_file():
        return {}, ()
    modes = {"pooling_mode_mean_tokens": "mean", "pooling_mode_max_tokens": "max", "pooling_mode_cls_token": "cls"}
    chosen = [name for name, value in read_json(path).items() if name.startswith("pooling_mode_") and value is True]
    modules = directory / "modules.json"
    settings = {"normalize": modules.is_file() and b"Normalize" in read_small(modules)}
    if len(chosen) != 1 or chosen[0] not in modes:
        return settings, (f"sentence-transformers pools it by {chosen}, which kbert does not have: choose a `pooling`",)
    return {"pooling": modes[chosen[0]], **settings}, ()


def _labels(fields, number, path):
    names = entry(fields, "id2label", dict, path)
    if not names:
        return None
    labels = [names.get(str(i)) for i in range(number)]
    if len(names) != number or not all(isinstance(label, str | int | float) for label in labels):
        raise ValueError(
            f"{path}: id2label must name the labels 0 … {number - 1}, one for each output. "
            f"Received: {reprlib.repr(names)}"
        )
    labels = [str(label) for label in labels]
    if len(set(labels)) < number:
        raise ValueError(f"{path}: id2label must name different labels. Received: {reprlib.repr(names)}")
    return labels
