"""Directories of Hugging Face's transformers: `config.json` (once `bert_config.json`), weights, tokenizer files.

They are written as safetensors; pickles and shards are read, too.
"""

import dataclasses
import logging
import pathlib
import reprlib
import sys
from typing import TYPE_CHECKING, Any

from kbert.config import POOLED_TOKENS, BertConfig
from kbert.files import read_json, write_json
from kbert.layers.embedding_pooling import POOLINGS
from kbert.options import PathLike
from kbert.pipelines.settings import default_labels
from kbert.text.vocabulary import SPECIAL_TOKENS
from kbert.weights.description import default_settings
from kbert.weights.files.safetensors_file import write_safetensors
from kbert.weights.files.tensor_file import TensorFile
from kbert.weights.formats.checkpoint import (
    PRETRAINED_TASKS,
    SETTINGS,
    TensorCheckpoint,
    described,
    read_kbert_settings,
)
from kbert.weights.formats.config_names import BERT_CONFIG_FIELDS, ConfigNames, entry
from kbert.weights.formats.export_tensors import check_held, export_tensors
from kbert.weights.formats.huggingface_tokenizer import CONFIG as TOKENIZER_CONFIG
from kbert.weights.formats.huggingface_tokenizer import FILES as TOKENIZER_FILES
from kbert.weights.formats.huggingface_tokenizer import (
    read_huggingface_tokenizer,
    write_huggingface_tokenizer,
)
from kbert.weights.formats.huggingface_weights import (
    BIAS,
    DECODER,
    DECODER_BIAS,
    PICKLE,
    POOLER,
    TABLE,
    WEIGHTS,
    current_names,
    has_huggingface_weights,
    is_tied,
    open_huggingface_weights,
)
from kbert.weights.formats.name_table import NameTable

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.settings import ModelSettings

_LOGGER = logging.getLogger("kbert")
NAMES = NameTable(
    "huggingface",
    names={
        "masked_lm_head/output_embeddings": "cls.predictions.decoder.weight",
        "masked_lm_head/output_bias": "cls.predictions.bias",
    },
    layers={
        "embeddings/token_embedding": "bert.embeddings.word_embeddings",
        "embeddings/segment_embedding": "bert.embeddings.token_type_embeddings",
        "embeddings/position_embedding": "bert.embeddings.position_embeddings",
        "embeddings/layer_norm": "bert.embeddings.LayerNorm",
        "encoder_block_{i}/attention/query": "bert.encoder.layer.{i}.attention.self.query",
        "encoder_block_{i}/attention/key": "bert.encoder.layer.{i}.attention.self.key",
        "encoder_block_{i}/attention/value": "bert.encoder.layer.{i}.attention.self.value",
        "encoder_block_{i}/attention/output": "bert.encoder.layer.{i}.attention.output.dense",
        "encoder_block_{i}/attention_layer_norm": "bert.encoder.layer.{i}.attention.output.LayerNorm",
        "encoder_block_{i}/feed_forward/intermediate": "bert.encoder.layer.{i}.intermediate.dense",
        "encoder_block_{i}/feed_forward/output": "bert.encoder.layer.{i}.output.dense",
        "encoder_block_{i}/feed_forward_layer_norm": "bert.encoder.layer.{i}.output.LayerNorm",
        "pooler/dense": "bert.pooler.dense",
        "masked_lm_head/transform": "cls.predictions.transform.dense",
        "masked_lm_head/layer_norm": "cls.predictions.transform.LayerNorm",
        "next_sentence_head/dense": "cls.seq_relationship",
        "classifier_head/dense": "classifier",
        "regressor_head/dense": "classifier",
        "span_head/dense": "qa_outputs",
        "tagger_head/dense": "classifier",
        "multiple_choice_head/dense": "classifier",
    },
    parts={"embeddings": ".weight", "kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias"},
    transposed_kernels=True,
)
CONFIG_NAMES = ConfigNames(
    format="huggingface",
    fields=BERT_CONFIG_FIELDS | {"layer_norm_epsilon": "layer_norm_eps", "causal": "is_decoder"},
    fixed={"position_embedding": "learned", "pooled_token": "first"},
    fixed_reason="its BertModel means",
    defaults={"hidden_act": "gelu"},
    activations={  # its "gelu" is the erf form, unlike Google's
        "gelu_pytorch_tanh": "gelu_tanh",
        "gelu_new": "gelu_tanh",
        "gelu_fast": "gelu_tanh",
        "gelu_python_tanh": "gelu_tanh",
        "gelu": "gelu_erf",
        "gelu_python": "gelu_erf",
        "relu": "relu",
        "silu": "silu",
        "swish": "silu",
        "tanh": "tanh",
    },
)
CONFIG = "config.json"
OLD_CONFIG = (
    "bert_config.json"  # Google's, with which pytorch-pretrained-bert and many models of domains were published
)
_CLASSES = {  # the library's class → task
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
_POOLED_TOKEN = "kbert_pooled_token"  # of a model without a pooler, where it has no meaning for the library
_BY_NAMES = "the config does not say which model it is; the names of the tensors are BERT's"
_MULTI_LABEL = "multi_label_classification"  # the value of problem_type
_WITHOUT_POOLER = ("masked_lm", "tagging", "span")  # classes that are built with add_pooling_layer=False
_OUTPUTS = {  # kbert's output → transformers', the first that its class has
    "mlm_logits": ("prediction_logits", "logits"),
    "nsp_logits": ("seq_relationship_logits", "logits"),
    "logits": ("logits",),
    "score": ("logits",),
    "start_logits": ("start_logits",),
    "end_logits": ("end_logits",),
}


TITLE = f"a Hugging Face directory ({CONFIG} or {OLD_CONFIG}, {WEIGHTS} or {PICKLE})"
FILES = (CONFIG, WEIGHTS, *TOKENIZER_FILES, SETTINGS)


def recognizes(path: pathlib.Path) -> bool:
    if not has_huggingface_weights(path):
        return False
    directory = _directory_of(path)
    is_googles = path.is_dir() and any(path.glob("*.ckpt*.index"))  # the old config is of that checkpoint
    return (directory / CONFIG).is_file() or ((directory / OLD_CONFIG).is_file() and not is_googles)


def read(path: pathlib.Path, vocabulary: PathLike | None = None) -> TensorCheckpoint:
    """The tensors decide the task or, if heads share a name, ``architectures`` in the config."""
    directory = _directory_of(path)
    config_path = _config_of(directory)
    fields = read_json(config_path)
    kind = _kind_of(fields)
    _refuse(fields, kind, config_path)
    config = CONFIG_NAMES.to_kbert(fields, str(config_path))
    tensors = open_huggingface_weights(path)
    names, ignored = current_names(tensors)
    if kind is None:
        _check_names(tensors, names, config, config_path)
    pooler = POOLER in names
    if not pooler and fields.get(_POOLED_TOKEN) in POOLED_TOKENS:
        config = dataclasses.replace(config, pooled_token=fields[_POOLED_TOKEN])
    task, remarks = _task_of(fields, tensors, names, config_path)
    arguments = _arguments(task, fields, tensors, names, config_path)
    if arguments.get("tied") and DECODER in names:
        ignored.add(names.pop(DECODER))
    tokenizer = read_huggingface_tokenizer(directory, vocabulary)
    pooling, more = _embedding(directory)
    return TensorCheckpoint(
        path=path,
        config_path=config_path,
        names=NAMES,
        config_names=CONFIG_NAMES,
        description=described(task, config, pooler=pooler, **arguments),
        settings=_settings(task, fields, config, arguments, tokenizer, pooling, config_path),
        other_options=pooling,
        vocabulary=tokenizer.vocabulary,
        tensors=tensors,
        stored_names=names,
        ignored=frozenset(ignored),
        remarks=(*([_BY_NAMES] if kind is None else []), *remarks, *tokenizer.remarks, *more),
    ).check()


def write(
    directory: pathlib.Path,
    model: "BertModel",
    settings: "ModelSettings",
    vocabulary: list[str] | None,
) -> None:
    """Writes labels and tokenizer settings as the library reads them; the rest goes into a file beside them."""
    tensors = export_tensors(NAMES, model)
    name = class_of(model)
    pooler = model.task not in _WITHOUT_POOLER
    reason = f"its {name} has {'one' if pooler else 'none'}"
    check_held(NAMES, model, pooler=pooler, reason=reason, multi_label=True)
    untied = model.task in ("pretraining", "masked_lm") and not model.tied
    if untied:  # the library computes with the decoder's bias, but needs the other one too
        tensors[DECODER_BIAS] = tensors[BIAS]
    write_json(directory / CONFIG, _config(model, name, settings, tied=not untied))
    write_json(directory / SETTINGS, settings.to_dict())
    if vocabulary is not None:
        write_huggingface_tokenizer(directory, settings.tokenizer, vocabulary, model.config)
    write_safetensors(directory / WEIGHTS, tensors, format="pt")


# Reading.


def _directory_of(path: pathlib.Path) -> pathlib.Path:
    return path.parent if path.is_file() else path


def _config_of(directory: pathlib.Path) -> pathlib.Path:
    path = directory / CONFIG
    return path if path.is_file() else directory / OLD_CONFIG


def _kind_of(fields: dict) -> str | None:
    """The kind of model that a config states; None: it states neither kind nor class."""
    architecture = _architecture(fields)
    return fields.get("model_type") or ("bert" if architecture in _CLASSES else architecture)


def _refuse(fields: dict, kind: str | None, path: pathlib.Path) -> None:
    if kind not in (None, "bert"):
        raise ValueError(f'{path}: kbert builds BERT, model_type "bert". Received: {kind!r}')
    for name, (possible, reason) in _REFUSED.items():
        if fields.get(name) is not None and fields[name] not in possible:
            raise ValueError(f"{path}: {name}={fields[name]!r} cannot be represented: {reason}.")


def _check_names(tensors: TensorFile, names: dict[str, str], config: BertConfig, path: pathlib.Path) -> None:
    """Raises ValueError unless the tensors, by their names, are a BERT's.

    An encoder that was saved by itself could also be a RoBERTa's, with one segment, or an ELECTRA's, without a pooler.
    """
    by_itself = not any(name.startswith("bert.") for name in tensors.tensors)
    if TABLE not in names or (by_itself and (POOLER not in names or config.num_segments == 1)):
        raise ValueError(
            f"{path} names no model, and the tensors in {tensors.path.name} need not be a BERT's. If it is one, add "
            f'"model_type": "bert" to {path.name}. Received: {", ".join(sorted(tensors.tensors)[:3])} …'
        )


def _architecture(fields: dict) -> str | None:
    names = fields.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None


def _task_of(
    fields: dict, tensors: TensorFile, names: dict[str, str], path: pathlib.Path
) -> tuple[str, tuple[str, ...]]:
    claimed = _CLASSES.get(_architecture(fields))
    masked_lm = "cls.predictions.transform.dense.weight" in names
    next_sentence = "cls.seq_relationship.weight" in names
    if masked_lm or next_sentence:
        return PRETRAINED_TASKS[masked_lm, next_sentence], ()
    if "qa_outputs.weight" in names:
        return "span", ()
    if "classifier.weight" in names:
        return _classifier_task(fields, _num_labels(tensors, names), claimed, names, path)
    remark = f"the config says {_architecture(fields)}, but the weights are an encoder's alone"
    return "encoder", () if claimed in (None, "encoder") else (remark,)


def _num_labels(tensors: TensorFile, names: dict[str, str]) -> int:
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
        if POOLER not in names:
            return "tagging", ("the config does not say which class it is; a classifier without pooler: tagging",)
        remarks = ("the config does not say which class it is; a classifier with pooler: of sequences",)
    if kind == "regression" and rows > 1:
        raise ValueError(
            f"{path}: problem_type={kind!r} with {rows} outputs cannot be represented: kbert's regressor gives one "
            "number. (Without problem_type it is loaded, as a classifier.)"
        )
    return ("regression" if rows == 1 and kind != _MULTI_LABEL else "classification"), remarks


def _arguments(
    task: str, fields: dict, tensors: TensorFile, names: dict[str, str], path: pathlib.Path
) -> dict[str, Any]:
    if task in ("pretraining", "masked_lm"):
        return {"tied": is_tied(tensors, names, entry(fields, "tie_word_embeddings", bool, path, True))}
    arguments = {}
    if task in ("classification", "tagging"):
        arguments["num_labels"] = _num_labels(tensors, names)
    if task == "classification" and fields.get("problem_type") == _MULTI_LABEL:
        arguments["multi_label"] = True
    has_dropout = task in ("classification", "regression", "tagging", "multiple_choice")
    if has_dropout and fields.get("classifier_dropout") is not None:
        arguments["dropout"] = fields["classifier_dropout"]
    return arguments


def _settings(task, fields, config, arguments, tokenizer, pooling, config_path):
    directory = config_path.parent
    stored = read_kbert_settings(directory, task) or default_settings(task, config, {}, _length(directory))
    stated = {"tokenizer": {**stored.tokenizer, **tokenizer.settings}}
    if own := tokenizer.settings.get("special_tokens_in_text"):  # the library's files do not say it of BERT's tokens
        read = stored.tokenizer.get("special_tokens_in_text", False)
        read = {True: SPECIAL_TOKENS, False: ()}[read] if isinstance(read, bool) else read
        kept = [token for token in read if token in (*SPECIAL_TOKENS, *own)]
        stated["tokenizer"]["special_tokens_in_text"] = list(dict.fromkeys([*kept, *own]))
    stated |= {name: value for name, value in pooling.items() if name in stored.task.option_names()}
    if "num_labels" in arguments:
        stated["labels"] = _labels(fields, arguments["num_labels"], config_path)
        without_names = [None, default_labels(arguments["num_labels"])[1]]
        has_other_labels = stated["labels"] not in ([list(stored.task.labels)] if stored.task.labels else without_names)
        if task == "classification" and (has_other_labels or not arguments.get("multi_label")):
            stated["thresholds"] = None  # config.json was changed by another program since
    return stored.replace(**stated)


def _length(directory: pathlib.Path) -> int | None:
    """The sequence length of a model of sentence-transformers (version 6 keeps it with the tokenizer), or None."""
    path, tokenizer = directory / "sentence_bert_config.json", directory / TOKENIZER_CONFIG
    if not path.is_file():
        return None
    length = entry(read_json(path), "max_seq_length", int, path)
    if length is None and tokenizer.is_file():
        length = entry(read_json(tokenizer), "model_max_length", int, tokenizer)
    return length or sys.maxsize  # as long as the position table


def _embedding(directory):
    """The pooling of sentence-transformers, if the directory is one of its models; lines for the report."""
    path, prompts = directory / "1_Pooling" / CONFIG, directory / "config_sentence_transformers.json"
    if not path.is_file():
        return {}, ()
    fields = read_json(path)
    chosen = fields.get("pooling_mode")  # since version 6, a name or a list of names
    if chosen is None:
        flags = {"mean_tokens": "mean", "max_tokens": "max", "cls_token": "cls"}
        names = [name for name, value in fields.items() if name.startswith("pooling_mode_") and value is True]
        chosen = [flags.get(name.removeprefix("pooling_mode_"), name) for name in names]
    if isinstance(chosen, list) and len(chosen) == 1:
        [chosen] = chosen
    modules = directory / "modules.json"
    kinds = _modules(modules) if modules.is_file() else []
    settings, remarks = {"normalize": "Normalize" in kinds}, []
    if others := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        remarks.append(f"has the modules {others}, kbert has not: embeddings are those without them")
    if chosen in POOLINGS:
        settings["pooling"] = chosen
    else:
        remarks.append(f"pools it by {chosen}, which kbert does not have: choose a `pooling`")
    if prompts.is_file():
        content = read_json(prompts)
        name = entry(content, "default_prompt_name", str, prompts)
        if prompt := entry(content, "prompts", dict, prompts, {}).get(name):
            remarks.append(f"puts {prompt!r} before every text, kbert does not: put it there yourself")
    for remark in remarks:
        _LOGGER.warning("%s: sentence-transformers %s", directory, remark)
    return settings, tuple(f"sentence-transformers {remark}" for remark in remarks)


def _modules(path: pathlib.Path) -> list[str]:
    """The kinds of modules of a model of sentence-transformers, such as "Pooling"."""
    return [str(module.get("type")).rpartition(".")[2] for module in read_json(path, list)]


def _labels(fields: dict, number: int, path: pathlib.Path) -> list[str] | None:
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


# Writing.


def class_of(model: "BertModel") -> str:
    if model.task == "regression":
        return "BertForSequenceClassification"
    if model.task == "masked_lm" and model.config.causal:
        return "BertLMHeadModel"
    return next(name for name, task in _CLASSES.items() if task == model.task)


def _config(model, name, settings, tied):
    config, own = model.config, {}
    default = CONFIG_NAMES.fixed["pooled_token"]
    if model.encoder.pooler is None and config.pooled_token != default:
        # For the library nothing is pooled; kbert reads it again, for a later fine-tuning.
        own = {_POOLED_TOKEN: config.pooled_token}
        config = dataclasses.replace(config, pooled_token=default)
    fields = {
        "architectures": [name],
        "model_type": "bert",
        **CONFIG_NAMES.from_kbert(config),
        **own,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": tied,
    }
    if model.dropout is not None:
        fields["classifier_dropout"] = model.dropout
    if model.task == "regression":
        fields |= {"problem_type": "regression", "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    elif model.num_labels is not None:
        labels = settings.task.labels or default_labels(model.num_labels)[1]
        fields["id2label"] = {str(i): label for i, label in enumerate(labels)}
        fields["label2id"] = {label: i for i, label in enumerate(labels)}
        fields |= {"problem_type": _MULTI_LABEL} if model.multi_label else {}
    return fields
