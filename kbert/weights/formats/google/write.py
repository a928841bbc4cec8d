"""Writes a model in the format of google-research/bert."""

import pathlib
from collections.abc import Callable

import numpy as np

from kbert.files import write_json
from kbert.pipelines.settings import ModelSettings
from kbert.text.vocabulary import write_vocabulary
from kbert.weights.formats.export_tensors import check_head, check_pooler, check_single_label, export_tensors
from kbert.weights.formats.google.names import CONFIG_NAMES, NAMES
from kbert.weights.formats.google.read import CONFIG, HEAD_DROPOUT, PREFIX, VOCABULARY
from kbert.weights.formats.google.slots import export_slots
from kbert.weights.formats.kbert_settings import write_kbert_settings


def write_google_checkpoint(directory, model, settings: ModelSettings, vocabulary=None, optimizer=None) -> None:
    """Writes ``bert_model.ckpt.*``, ``bert_config.json`` and ``vocab.txt`` into a directory.

    Args:
        directory: an existing directory.
        model: of the tasks encoder, pretraining, masked_lm, next_sentence, classification, regression and span.
        settings: what the format cannot store goes into a file beside it.
        vocabulary: the tokens, or None.
        optimizer: `kbert.AdamW` whose moments and step are written too, or None.

    Raises:
        ValueError: what the format cannot hold, with the reason.
    """
    directory = pathlib.Path(directory)
    fields = CONFIG_NAMES.from_kbert(model.config)
    if getattr(model, "dropout", 0.1) != 0.1:
        fields[HEAD_DROPOUT] = model.dropout
    values = {name: value for name, (_, value) in export_tensors(NAMES, model).items()}
    check_single_label("google", model)
    check_head("google", model)
    check_pooler("google", model, needed=True, reason="BertModel in its modeling.py always has one")
    values |= {} if optimizer is None else export_slots(optimizer, model)
    write_json(directory / CONFIG, fields)
    write_kbert_settings(directory, settings)
    if vocabulary is not None:
        write_vocabulary(directory / VOCABULARY, vocabulary)
    _write_checkpoint(directory / PREFIX, values)


def _write_checkpoint(prefix, values: dict[str, Callable[[], np.ndarray]]):
    import tensorflow as tf

    names = sorted(values)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.convert_to_tensor(values[name]()) for name in names],
    )
