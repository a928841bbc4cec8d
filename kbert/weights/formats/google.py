"""Checkpoints of google-research/bert: `bert_model.ckpt.*`, `bert_config.json` and `vocab.txt`.

They hold models of the tasks encoder, pretraining, masked_lm, next_sentence, classification, regression and span. The
state of an optimizer is neither read nor written.

Shapes: H hidden.
"""

import pathlib
import re
from typing import TYPE_CHECKING

from kbert.aliases import PathLike
from kbert.files import check_file, read_json, write_json
from kbert.text.vocabulary import read_vocabulary, write_vocabulary
from kbert.weights.description import ModelDescription, default_settings
from kbert.weights.files.tf_checkpoint_file import TFCheckpointFile
from kbert.weights.formats.checkpoint import (
    NO_VOCABULARY,
    PRETRAINED_TASKS,
    SETTINGS,
    TensorCheckpoint,
    case_remark,
    looks_cased,
    read_kbert_settings,
)
from kbert.weights.formats.config_names import BERT_CONFIG_FIELDS, ConfigNames
from kbert.weights.formats.export_tensors import check_held, export_tensors
from kbert.weights.formats.huggingface_weights import LAYERS
from kbert.weights.formats.name_table import NameTable, TensorName

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.settings import ModelSettings

CONFIG = "bert_config.json"
VOCABULARY = "vocab.txt"
PREFIX = "bert_model.ckpt"
_HEAD_DROPOUT = "classifier_dropout"  # Google's code ignores entries that it does not know
_STATE = ("global_step", "/adam_m", "/adam_v")  # the ends of names of the optimizer's state
NAMES = NameTable(
    "google",
    names={  # the matrices of the heads are [outputs, H]
        "masked_lm_head/output_bias": "cls/predictions/output_bias",
        "next_sentence_head/dense/kernel": TensorName("cls/seq_relationship/output_weights", transposed=True),
        "next_sentence_head/dense/bias": "cls/seq_relationship/output_bias",
        "classifier_head/dense/kernel": TensorName("output_weights", transposed=True),
        "classifier_head/dense/bias": "output_bias",
        "regressor_head/dense/kernel": TensorName("output_weights", transposed=True),
        "regressor_head/dense/bias": "output_bias",
        "span_head/dense/kernel": TensorName("cls/squad/output_weights", transposed=True),
        "span_head/dense/bias": "cls/squad/output_bias",
    },
    layers={
        layer: name.replace(".layer.", ".layer_").replace(".", "/")
        for layer, name in LAYERS.items()
        if name.startswith(("bert.", "cls.predictions."))
    },
    parts={"embeddings": ""},
)
CONFIG_NAMES = ConfigNames(
    format="google",
    fields=BERT_CONFIG_FIELDS,
    fixed={"layer_norm_epsilon": 1e-12, "causal": False, "position_embedding": "learned", "pooled_token": "first"},
    defaults={"type_vocab_size": 16},
    activations={"gelu": "gelu_tanh", "relu": "relu", "tanh": "tanh"},  # its "gelu" is the tanh form
)


TITLE = f"Google's checkpoint ({CONFIG}, {PREFIX}.index)"
FILES = (CONFIG, f"{PREFIX}.*", VOCABULARY, SETTINGS)


def recognizes(path: pathlib.Path) -> bool:
    """A directory with a TensorFlow checkpoint, its prefix, or one of its files."""
    if path.is_dir():
        return (path / CONFIG).is_file() or any(path.glob("*.ckpt*.index"))
    return _prefix_of(path).with_name(_prefix_of(path).name + ".index").is_file()


def read(path: pathlib.Path, vocabulary: PathLike | None = None) -> TensorCheckpoint:
    """The names of the tensors decide the task.

    The format has neither labels, which come from the file that kbert wrote beside it, nor the letter case, which
    the vocabulary shows.
    """
    prefix = _find_prefix(path) if path.is_dir() else _prefix_of(path)
    directory = prefix.parent
    fields = _read_config(directory / CONFIG)
    config = CONFIG_NAMES.to_kbert(fields, str(directory / CONFIG))
    tensors = TFCheckpointFile(prefix)
    _check_kind(tensors)
    task, arguments = _task_of(tensors)
    if task in ("classification", "regression"):
        arguments["dropout"] = fields.get(_HEAD_DROPOUT, 0.1)  # the constant in run_classifier.py
    if vocabulary is None and (directory / VOCABULARY).is_file():
        vocabulary = directory / VOCABULARY
    tokens = None if vocabulary is None else read_vocabulary(vocabulary)
    cased = tokens is not None and looks_cased(tokens)
    settings = read_kbert_settings(directory, task)
    remarks = (NO_VOCABULARY,) if tokens is None else () if settings else (case_remark(cased),)
    return TensorCheckpoint(
        path=path,
        config_path=directory / CONFIG,
        names=NAMES,
        config_names=CONFIG_NAMES,
        description=ModelDescription(task, config, arguments, {"pooler": True}),
        settings=settings or default_settings(task, config, {"lowercase": not cased}),
        vocabulary=tokens,
        tensors=tensors,
        stored_names={name: name for name in tensors.tensors},
        ignored=frozenset(name for name in tensors.tensors if name.endswith(_STATE)),
        remarks=remarks,
    ).check()


def write(
    directory: pathlib.Path,
    model: "BertModel",
    settings: "ModelSettings",
    vocabulary: list[str] | None,
) -> None:
    fields = CONFIG_NAMES.from_kbert(model.config)
    if fields["pad_token_id"] == 0:
        del fields["pad_token_id"]  # which Google's own files do not have
    if model.dropout not in (None, 0.1):
        fields[_HEAD_DROPOUT] = model.dropout
    values = {name: value for name, (_, value) in export_tensors(NAMES, model).items()}
    check_held(NAMES, model)
    write_json(directory / CONFIG, fields)
    write_json(directory / SETTINGS, settings.to_dict())
    if vocabulary is not None:
        write_vocabulary(directory / VOCABULARY, vocabulary)
    import tensorflow as tf

    names = sorted(values)
    tf.raw_ops.SaveV2(
        prefix=str(directory / PREFIX),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.convert_to_tensor(values[name]()) for name in names],
    )


# Reading.


def _read_config(path: pathlib.Path) -> dict:
    check_file(path, f"{CONFIG} beside the checkpoint")
    fields = read_json(path)
    foreign = sorted(set(fields) & {"num_hidden_groups", "inner_group_num", "model_type", "embedding_size"})
    if foreign:
        raise ValueError(f"{path} is not the config of a BERT, it has {foreign}: an ALBERT, ELECTRA or other relative.")
    return fields


def _find_prefix(directory: pathlib.Path) -> pathlib.Path:
    prefixes = [path.with_name(path.name.removesuffix(".index")) for path in sorted(directory.glob("*.index"))]
    if directory / PREFIX in prefixes:
        return directory / PREFIX
    if len(prefixes) != 1:
        raise FileNotFoundError(
            f"Expected one TensorFlow checkpoint ({PREFIX}.index and .data-…) in {directory}. Received: "
            f"{[prefix.name for prefix in prefixes] or 'none'}. Give the path of one of them."
        )
    return prefixes[0]


def _prefix_of(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(re.sub(r"\.(index|meta|data-.*)$", "", path.name))


def _check_kind(tensors: TFCheckpointFile) -> None:
    if "bert/embeddings/word_embeddings" not in tensors.tensors:
        raise ValueError(
            f"{tensors.path} holds no BERT in Google's names: expected bert/embeddings/word_embeddings. Received: "
            f"{', '.join(list(tensors.tensors)[:4])} … To load a kbert run, give its directory"
        )


def _task_of(tensors) -> tuple[str, dict]:
    """The task, and the arguments of its model that show in the tensors."""
    names = tensors.tensors
    if "cls/squad/output_weights" in names:
        return "span", {}
    if "output_weights" in names:
        labels = names["output_weights"].shape[0]
        return ("regression", {}) if labels == 1 else ("classification", {"num_labels": labels})
    heads = "cls/predictions/output_bias" in names, "cls/seq_relationship/output_weights" in names
    return PRETRAINED_TASKS[heads], {}
