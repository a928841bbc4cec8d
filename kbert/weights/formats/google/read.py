"""Checkpoints of google-research/bert: `bert_model.ckpt.*`, `bert_config.json`, `vocab.txt`."""

import os
import pathlib

from kbert.files import read_json
from kbert.text.vocabulary import read_vocabulary
from kbert.weights.files.tf_checkpoint_file import TFCheckpointFile
from kbert.weights.formats.casing import looks_cased
from kbert.weights.formats.google.names import CONFIG_NAMES, NAMES
from kbert.weights.formats.kbert_settings import read_kbert_settings
from kbert.weights.formats.tensor_checkpoint import (
    NO_VOCABULARY,
    TensorCheckpoint,
    case_remark,
    default_settings,
    described,
)

CONFIG, VOCABULARY, PREFIX, GLOBAL_STEP = "bert_config.json", "vocab.txt", "bert_model.ckpt", "global_step"
SLOTS = ("adam_m", "adam_v")
HEAD_DROPOUT = "classifier_dropout"  # Google's code ignores entries that it does not know
_NO_WEIGHTS = (GLOBAL_STEP, "_CHECKPOINTABLE_OBJECT_GRAPH")


def is_google_checkpoint(path) -> bool:
    """Whether a path is a TensorFlow checkpoint: a directory with one, its prefix, or one of its files."""
    path = pathlib.Path(path)
    if path.is_dir():
        return (path / CONFIG).is_file() or any(path.glob("*.ckpt*.index"))
    return _prefix_of(path).with_name(_prefix_of(path).name + ".index").is_file()


def read_google_checkpoint(path, vocabulary=None) -> TensorCheckpoint:
    """Reads and checks everything but the values; `path` is the directory, the prefix or one of the files.

    The names decide the task: pre-training heads, a SQuAD head, or the classifier's ``output_weights`` (with one row:
    regression). The format has neither labels nor the letter case. Labels come from the file that kbert wrote beside
    it, the case from the vocabulary.
    """
    path = pathlib.Path(path)
    prefix = _find_prefix(path) if path.is_dir() else _prefix_of(path)
    directory = prefix.parent
    fields = _read_config(directory / CONFIG)
    config = CONFIG_NAMES.to_kbert(fields, str(directory / CONFIG))
    tensors = TFCheckpointFile(prefix)
    _check_kind(tensors)
    task, num_labels = _task_of(tensors, prefix)
    arguments = {} if num_labels is None else {"num_labels": num_labels}
    if task in ("classification", "regression"):
        arguments["dropout"] = fields.get(HEAD_DROPOUT, 0.1)  # the constant in run_classifier.py
    tokens = _read_vocabulary(vocabulary, directory)
    cased = tokens is not None and looks_cased(tokens)
    settings = read_kbert_settings(directory, task)
    remarks = _remarks(tensors, tokens, cased, settings)
    return TensorCheckpoint(
        format=NAMES.format,
        path=path,
        config_path=directory / CONFIG,
        names=NAMES,
        config_names=CONFIG_NAMES,
        description=described(task, config, pooler=True, **arguments),
        settings=settings or default_settings(task, config, {"lowercase": not cased}),
        vocabulary=tokens,
        tensors=tensors,
        stored_names={name: name for name in tensors.tensors},
        ignored=frozenset(n for n in tensors.tensors if n in _NO_WEIGHTS or n.rsplit("/", 1)[-1] in SLOTS),
        remarks=remarks,
    ).check()


def _read_config(path):
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected {CONFIG} beside the checkpoint: without it the number of heads is unknown. Not found: {path}"
        )
    fields = read_json(path)
    foreign = sorted(set(fields) & {"num_hidden_groups", "inner_group_num", "model_type", "embedding_size"})
    if foreign:
        raise ValueError(f"{path} is not the config of a BERT, it has {foreign}: an ALBERT, ELECTRA or other relative.")
    return fields


def _find_prefix(directory):
    prefixes = [path.with_name(path.name.removesuffix(".index")) for path in sorted(directory.glob("*.index"))]
    if directory / PREFIX in prefixes:
        return directory / PREFIX
    state = directory / "checkpoint"  # written by a training run: the name of its latest checkpoint
    if state.is_file():
        import tensorflow as tf

        latest = tf.train.get_checkpoint_state(str(directory))
        name = "" if latest is None else pathlib.Path(latest.model_checkpoint_path).name
        if directory / name in prefixes:  # the directory may have been moved since
            return directory / name
    if len(prefixes) != 1:
        raise FileNotFoundError(
            f"Expected one TensorFlow checkpoint ({PREFIX}.index and .data-…) in {directory}. Received: "
            f"{[prefix.name for prefix in prefixes] or 'none'}. Give the path of one of them."
        )
    return prefixes[0]


def _prefix_of(path):
    name = path.name.removesuffix(".index").removesuffix(".meta")
    return path.with_name(name.split(".data-")[0] if ".data-" in name else name)


def _check_kind(tensors):
    names = tensors.tensors
    if "bert/embeddings/word_embeddings" in names:
        return
    if any(name.startswith("_CHECKPOINTABLE_OBJECT_GRAPH") for name in names):
        raise ValueError(
            f"{tensors.path} is a checkpoint of objects (tf.train.Checkpoint), whose names depend on the program that "
            "wrote it; kbert reads Google's, which go by variable names. Of a kbert run, load the directory model/."
        )
    raise ValueError(
        f"{tensors.path} holds no BERT in Google's names: expected bert/embeddings/word_embeddings. Received: "
        f"{', '.join(list(names)[:4])} …"
    )


def _task_of(tensors, prefix):
    names = tensors.tensors
    if "cls/squad/output_weights" in names:
        return "span", None
    if "output_weights" in names:
        shape = names["output_weights"].shape
        if len(shape) != 2:
            raise ValueError(f"{prefix}: output_weights must have the shape [labels, hidden]. Received: {shape}")
        return ("regression", None) if shape[0] == 1 else ("classification", shape[0])
    masked_lm, next_sentence = "cls/predictions/output_bias" in names, "cls/seq_relationship/output_weights" in names
    if masked_lm and next_sentence:
        return "pretraining", None
    return ("masked_lm" if masked_lm else "next_sentence" if next_sentence else "encoder"), None


def _read_vocabulary(given: str | os.PathLike | None, directory):
    if given is not None:
        return read_vocabulary(given)
    return read_vocabulary(directory / VOCABULARY) if (directory / VOCABULARY).is_file() else None


def _remarks(tensors, tokens, cased, settings):
    remarks = [NO_VOCABULARY] if tokens is None else [] if settings else [case_remark(cased)]
    slots = sum(name.rsplit("/", 1)[-1] == SLOTS[0] for name in tensors.tensors)
    if slots:
        remarks.append(f"it holds the optimizer's slots of {slots} variables (see kbert.weights.formats.google.slots)")
    return tuple(remarks)
