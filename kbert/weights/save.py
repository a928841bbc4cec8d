"""A model or pipeline → a directory that `load_pretrained` and every verb can read."""

import dataclasses
from typing import TYPE_CHECKING, Any

from kbert.aliases import PathLike
from kbert.checks import check_directory
from kbert.files import check_directory_is_free, check_json, write_directory
from kbert.models.bert_model import BertModel
from kbert.models.lora import merged
from kbert.pipelines.settings import ModelSettings
from kbert.text.tokenizer import BertTokenizer, check_tokenizer
from kbert.weights.description import (
    ModelDescription,
    check_settings,
    check_vocabulary_fits,
    default_settings,
)
from kbert.weights.formats.checkpoint import warn_of_wrong_casing
from kbert.weights.formats.registry import FORMATS, get_format
from kbert.weights.provenance import maker_of

if TYPE_CHECKING:
    from kbert.pipelines.pipeline import Pipeline


def save_pretrained(
    model_or_pipeline: "BertModel | Pipeline",
    directory: PathLike,
    format: str = "huggingface",
    *,
    tokenizer: BertTokenizer | None = None,
    settings: ModelSettings | None = None,
    made_by: dict[str, Any] | None = None,
    overwrite: bool = False,
    storage_dtype: str | None = None,
) -> None:
    """Writes a model with everything needed to use it: architecture, weights, vocabulary, labels, preprocessing.

    The directory appears when it is complete (it is written under another name and renamed). It is a Hugging Face
    directory, which transformers opens as it is: ``config.json``, ``model.safetensors``, ``vocab.txt``,
    ``tokenizer.json``, ``tokenizer_config.json``, ``README.md``, and for embeddings the files of sentence-transformers.
    The key ``kbert`` in config.json has the task and its settings. ``kbert.json`` has hashes, versions and `made_by`.
    A model that transformers' BERT would compute differently has the model_type ``kbert``, which transformers refuses:
    an int8 model, ``pooled_token="last"`` with a pooler, and a masked-LM head with an activation or epsilon of its own.

    With "google", what Google's checkpoints cannot store, such as labels, goes into ``kbert_settings.json``. A model
    that would compute something else there is refused.

    Args:
        model_or_pipeline: one of kbert's models, or a `Pipeline`, which knows its tokenizer and settings. LoRA is saved
            merged; the model is not changed.
        directory: a new or empty directory or, with `overwrite`, one of this format with nothing else in it.
        format: "huggingface" or "google".
        tokenizer: of a model; None: the one it was loaded with. A pipeline has its own.
        settings: of a model; None: the ones it was loaded with. A pipeline has its own.
        made_by: JSON-able dict for kbert.json: the settings of the run that made the model. Defaults to what the model
            was loaded with, for its own task and without a new head, unless `fit`, `train_on_batch`, `set_weights`,
            `load_weights`, `load_adapter` or `ExactResume` has changed it since. Other changes, such as assigned
            variables or `quantize`, are not noticed: give ``{}``.
        overwrite: whether a directory of this format may be replaced.
        storage_dtype: type of the weights in model.safetensors: "float32", or "bfloat16" and "float16" for half the
            size. They are loaded as float32. Defaults to "float32".

    Raises:
        TypeError: neither a kbert model nor a pipeline, `directory` is not a path, or `tokenizer` not a
            `kbert.BertTokenizer`.
        FileExistsError: the directory holds something else, or a model without `overwrite`.
        NotADirectoryError: it, or a part of its path, is a file.
        ValueError: an unknown format or no tokenizer. A vocabulary or labels that do not fit the model. A `made_by`
            that is not a dict that JSON holds. A model that the format cannot hold (the message says why).

    Example::

        kbert.save_pretrained(pipeline, "models/sentiment")
    """
    if format not in FORMATS:
        raise ValueError(f"save_pretrained: `format` must be one of {tuple(FORMATS)}. Received: {format!r}")
    if storage_dtype is not None and format != "huggingface":
        raise ValueError(f'save_pretrained: only format="huggingface" takes a `storage_dtype`. Received: {format!r}')
    path = check_directory(directory, "save_pretrained: `directory`")
    check_json("save_pretrained", made_by=made_by)
    form = get_format(format)
    model, tokenizer, settings = resolve_parts(model_or_pipeline, tokenizer, settings, format == "huggingface")
    made_by = maker_of(model) if made_by is None else made_by
    model = merged(model)
    check_settings("save_pretrained", settings, ModelDescription.from_model(model))  # what loading would refuse
    vocabulary = None if tokenizer is None else tokenizer.vocabulary
    if tokenizer is not None:
        check_vocabulary_fits("save_pretrained", tokenizer, model.config)
        warn_of_wrong_casing(vocabulary, tokenizer.lowercase, str(directory))
    check_directory_is_free(directory, form.FILES, overwrite)
    if path.is_dir() and any(path.iterdir()) and not form.recognizes(path):  # others have files of equal names
        raise FileExistsError(
            f"{directory} holds files of a {format} checkpoint's names, but is not one; save to a new place. "
            f"Found: {sorted(entry.name for entry in path.iterdir())[:8]}"
        )
    own = {"made_by": made_by, "storage_dtype": storage_dtype or "float32"} if format == "huggingface" else {}

    def write(partial):
        form.write(partial, model, settings, vocabulary, **own)

    write_directory(directory, write, needed=4 * model.count_params())


def resolve_parts(
    model_or_pipeline: "BertModel | Pipeline",
    tokenizer: BertTokenizer | None = None,
    settings: ModelSettings | None = None,
    needs_tokenizer: bool = True,
) -> tuple[BertModel, BertTokenizer | None, ModelSettings]:
    """Model, tokenizer and `ModelSettings` of what is saved: given, of the pipeline, or as the model was loaded."""
    from kbert.pipelines.pipeline import Pipeline  # not above: it loads TensorFlow

    if isinstance(model_or_pipeline, Pipeline):
        pipeline = model_or_pipeline
        if tokenizer is not None or settings is not None:
            raise ValueError("save_pretrained: a pipeline has its own tokenizer and settings; give neither.")
        # Its settings have the model's tokenizer; the preprocessor's own may read [MASK], too.
        return pipeline.model, pipeline.tokenizer, ModelSettings(task=pipeline.task).replace(**pipeline.settings())
    model = model_or_pipeline
    if not isinstance(model, BertModel):
        hint = "; give its `pipeline`" if hasattr(model, "pipeline") else ""
        raise TypeError(
            f"save_pretrained: expected a kbert model or a kbert.Pipeline. Received: {type(model).__name__}{hint}"
        )
    loaded = model.pretrained
    if tokenizer is None:
        tokenizer = None if loaded is None else loaded.tokenizer
        if tokenizer is None and needs_tokenizer and loaded is None:
            raise ValueError(
                "save_pretrained: this model has no tokenizer yet; pass `tokenizer`, or save its pipeline."
            )
    if settings is None:
        settings = default_settings(model.task, model.config) if loaded is None else loaded.settings
    if not isinstance(settings, ModelSettings) or settings.task.name != model.task:
        raise ValueError(
            f"save_pretrained: `settings` must be the kbert.pipelines.settings.ModelSettings of a {model.task} model "
            f"(what a run was started with goes to `made_by`). Received: {settings!r}"
        )
    if tokenizer is not None:
        check_tokenizer(tokenizer, "save_pretrained")
        settings = dataclasses.replace(settings, tokenizer=tokenizer.settings())
    return model, tokenizer, settings
