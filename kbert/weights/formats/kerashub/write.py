"""Writes a model as a KerasHub preset."""

import pathlib

from kbert.pipelines.settings import ModelSettings
from kbert.weights.formats.export_tensors import check_head, check_pooler, check_single_label, export_tensors
from kbert.weights.formats.kbert_settings import write_kbert_settings
from kbert.weights.formats.kerashub.names import CONFIG_NAMES, NAMES
from kbert.weights.formats.kerashub.read import HEAD
from kbert.weights.formats.kerashub.weights_file import kerashub_model

_PREPROCESSORS = {
    "masked_lm": "BertMaskedLMPreprocessor",
    "classification": "BertTextClassifierPreprocessor",
    "regression": "BertTextClassifierPreprocessor",
}


def write_kerashub_preset(directory, model, settings: ModelSettings, vocabulary=None) -> None:
    """Writes a preset of BertBackbone, BertMaskedLM or BertTextClassifier with KerasHub.

    KerasHub's tokenizer differs from the original's (docs/parity.md): the weights and the vocabulary are written
    exactly, but KerasHub treats rare characters in its own way.

    Args:
        directory: an existing directory.
        model: of the tasks encoder, masked_lm, classification and regression (a classifier of one class).
        settings: what the format cannot store goes into a file beside it.
        vocabulary: the tokens, or None.

    Raises:
        ImportError: keras_hub is not installed.
        ValueError: what the format cannot hold, with the reason.
    """
    directory = pathlib.Path(directory)
    fields = CONFIG_NAMES.from_kbert(model.config)
    tensors = export_tensors(NAMES, model)
    check_single_label("kerashub", model)
    check_head("kerashub", model, HEAD["head_activation"], HEAD["head_layer_norm_epsilon"])
    check_pooler("kerashub", model, needed=True, reason="BertBackbone always has one")
    other = kerashub_model(
        fields,
        model.task,
        num_classes=getattr(model, "num_labels", 1),
        preprocessor=_preprocessor(model.task, settings, vocabulary),
        dropout=getattr(model, "dropout", 0.1),
    )
    for variable in other.weights:
        shape, values = tensors.pop(variable.path)
        if tuple(variable.shape) != shape:
            raise ValueError(f"This version of keras_hub builds {variable.path} {variable.shape}. Expected: {shape}")
        variable.assign(values())
    other.save_to_preset(str(directory))
    if vocabulary is not None and model.task == "encoder":
        _tokenizer(settings, vocabulary).save_to_preset(str(directory))
    write_kbert_settings(directory, settings)


def _tokenizer(settings, vocabulary):
    import keras_hub

    wanted = settings.tokenizer
    strip = wanted["lowercase"] if wanted["strip_accents"] is None else wanted["strip_accents"]
    return keras_hub.models.BertTokenizer(
        vocabulary=list(vocabulary),
        lowercase=wanted["lowercase"],
        strip_accents=strip,
        split_on_cjk=wanted["split_on_cjk"],
        special_tokens_in_strings=wanted["special_tokens_in_text"],
    )


def _preprocessor(task, settings, vocabulary):
    if vocabulary is None or task not in _PREPROCESSORS:
        return None
    import keras_hub

    preprocessor = getattr(keras_hub.models, _PREPROCESSORS[task])
    return preprocessor(_tokenizer(settings, vocabulary), sequence_length=settings.sequence_length)
