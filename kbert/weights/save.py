"""A model or pipeline → a directory that `load_pretrained` and every recipe take."""

import dataclasses

from kbert.files import check_directory_is_free, write_directory
from kbert.pipelines.registry import task_pipeline
from kbert.pipelines.settings import ModelSettings
from kbert.weights.description import ModelDescription
from kbert.weights.formats.casing import warn_of_wrong_casing
from kbert.weights.formats.google.write import write_google_checkpoint
from kbert.weights.formats.huggingface.write import write_huggingface_directory
from kbert.weights.formats.kbert.directory import write_kbert_directory
from kbert.weights.formats.kerashub.write import write_kerashub_preset
from kbert.weights.formats.settings_file import NAME
from kbert.weights.formats.sizes import check_settings

FORMATS = ("kbert", "huggingface", "google", "kerashub")
_OTHERS = {  # writer, and the patterns of what it writes
    "huggingface": (
        write_huggingface_directory,
        ("config.json", "model.safetensors", "vocab.txt", "tokenizer.json", "tokenizer_config.json", NAME),
    ),
    "google": (write_google_checkpoint, ("bert_config.json", "bert_model.ckpt.*", "vocab.txt", NAME)),
    "kerashub": (
        write_kerashub_preset,
        ("config.json", "task.json", "preprocessor.json", "tokenizer.json", "metadata.json", "*.weights.h5", "assets")
        + (NAME,),
    ),
}


def save_pretrained(
    model_or_pipeline,
    directory,
    format="kbert",
    *,
    tokenizer=None,
    settings=None,
    made_by=None,
    optimizer=None,
    overwrite=False,
):
    """Writes a model with all that is needed to use it: architecture, weights, vocabulary, labels, preprocessing.

    The directory appears whole or not at all (it is written under another name and renamed). In the format "kbert" it
    holds ``config.json``, ``vocab.txt``, ``model.weights.h5`` and ``manifest.json`` (hashes, versions, what made it);
    the others are those that transformers, google-research/bert and KerasHub read, with the same numbers. What a format
    has no place for without harm (labels in Google's) goes into ``kbert_settings.json`` beside it; what it cannot hold
    without computing something else is refused.

    Args:
        model_or_pipeline: one of kbert's models, or a `Pipeline`, which knows its tokenizer and settings.
        directory: where to. New, empty, or (with `overwrite`) a directory of this format with nothing else in it.
        format: "kbert", "huggingface", "google" or "kerashub".
        tokenizer: of a model; None: the one it was loaded with.
        settings: `ModelSettings` of a model; None: those it was loaded with. Of a pipeline: its own, always.
        made_by: JSON-able dict for the manifest: the settings of the run that made the model.
        optimizer: `kbert.AdamW` whose moments and step go into a Google checkpoint (`load_slots` reads
            them); other formats have no place for them.
        overwrite: whether a directory of this format may be replaced.

    Raises:
        FileExistsError: the directory holds something else, or a model and `overwrite` is not given.
        ValueError: an unknown format, no tokenizer, a vocabulary or labels that do not fit the model, a model that the
            format cannot hold (the reason is told).

    Example::

        kbert.save_pretrained(pipeline, "models/sentiment")
    """
    if format not in FORMATS:
        raise ValueError(f"save_pretrained: `format` must be one of {FORMATS}. Received: {format!r}")
    model, tokenizer, settings = _parts(model_or_pipeline, tokenizer, settings, needs_tokenizer=format == "kbert")
    settings = dataclasses.replace(settings, task=model.task)
    _check(model, tokenizer, settings)
    vocabulary = None if tokenizer is None else tokenizer.vocabulary
    if tokenizer is not None:
        warn_of_wrong_casing(vocabulary, tokenizer.lowercase, str(directory))
    if optimizer is not None and format != "google":
        raise ValueError(f'save_pretrained: only format="google" holds an optimizer. Received: format={format!r}')
    if format == "kbert":
        write_kbert_directory(directory, model, settings, vocabulary, made_by=made_by, overwrite=overwrite)
        return
    write, files = _OTHERS[format]
    check_directory_is_free(directory, files, overwrite)
    slots = {} if optimizer is None else {"optimizer": optimizer}
    write_directory(directory, lambda place: write(place, model, settings, vocabulary, **slots))


def _parts(model_or_pipeline, tokenizer, settings, needs_tokenizer):
    if hasattr(model_or_pipeline, "preprocessor"):  # a Pipeline
        pipeline = model_or_pipeline
        if tokenizer is not None or settings is not None:
            raise ValueError("save_pretrained: a pipeline has its own tokenizer and settings; give neither.")
        stored = getattr(pipeline.model.pretrained, "settings", None) or ModelSettings()
        return pipeline.model, pipeline.tokenizer, stored.replace(**pipeline.settings())
    model = model_or_pipeline
    loaded = getattr(model, "pretrained", None)
    if tokenizer is None:
        tokenizer = None if loaded is None else loaded.tokenizer
        if tokenizer is None and needs_tokenizer:
            raise ValueError(
                "save_pretrained: this model was not loaded with a tokenizer; pass `tokenizer`, or save its pipeline."
            )
    if settings is None:
        settings = _defaults(model) if loaded is None else loaded.settings
    if not isinstance(settings, ModelSettings):
        raise ValueError(
            "save_pretrained: `settings` must be a kbert.pipelines.settings.ModelSettings (what a run was started with "
            f"goes to `made_by`). Received: {settings!r}"
        )
    if tokenizer is not None:
        settings = dataclasses.replace(settings, tokenizer=tokenizer.settings())
    return model, tokenizer, settings


def _defaults(model):
    length = task_pipeline(model.task).default_sequence_length(model.config.max_sequence_length)
    return ModelSettings(sequence_length=length)


def _check(model, tokenizer, settings):
    if tokenizer is not None and tokenizer.vocabulary_size != model.config.vocabulary_size:
        raise ValueError(
            f"save_pretrained: the vocabulary must have as many tokens as the model's table has rows "
            f"({model.config.vocabulary_size}). Received: {tokenizer.vocabulary_size} tokens"
        )
    if settings.sequence_length > model.config.max_sequence_length:
        raise ValueError(
            "save_pretrained: `sequence_length` must be at most the model's position table, "
            f"{model.config.max_sequence_length}. Received: {settings.sequence_length}"
        )
    try:
        check_settings(settings, ModelDescription.of(model))  # what loading would refuse
    except ValueError as error:
        raise ValueError(f"save_pretrained: {error}") from None
    number = getattr(model, "num_labels", None)
    if settings.labels is not None and number is not None and len(settings.labels) != number:
        raise ValueError(
            f"save_pretrained: expected {number} labels, as many as the model has logits. Received: {settings.labels}"
        )
