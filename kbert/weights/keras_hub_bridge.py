"""Models of KerasHub in memory, to and from kbert's."""

import os
import pathlib
from typing import TYPE_CHECKING

from kbert.models.lora import merged
from kbert.weights.formats.checkpoint import NO_VOCABULARY, StoredTokenizer, TensorCheckpoint
from kbert.weights.formats.kerashub import (
    KerasHubVariables,
    build_kerashub_model,
    kerashub_checkpoint,
    kerashub_tokenizer,
    tokenizer_settings,
)
from kbert.weights.load import load_pretrained
from kbert.weights.origin import Origin, set_origin
from kbert.weights.save import resolve_parts

if TYPE_CHECKING:
    import keras
    import keras_hub

    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.text.tokenizer import BertTokenizer


def from_keras_hub(
    source: "keras.Model | str | os.PathLike",
    tokenizer: "keras_hub.models.BertTokenizer | None" = None,
    task: str | None = None,
    **overrides,
) -> "BertModel":
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
    model = load_pretrained(_in_memory_checkpoint(source, tokenizer), task, **overrides)
    set_origin(model, Origin(f"keras_hub {type(source).__name__}", None))
    return model


def to_keras_hub(
    model_or_pipeline: "BertModel | Pipeline", tokenizer: "BertTokenizer | None" = None
) -> "tuple[keras.Model, keras_hub.models.BertTokenizer | None]":
    """KerasHub's model and tokenizer, with the weights and vocabulary of one of kbert's models.

    Args:
        model_or_pipeline: an encoder, a masked language model, a classifier, a regressor, or a pipeline of one.
        tokenizer: of a model; None: the one it was loaded with.

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


def _in_memory_checkpoint(model, tokenizer=None) -> TensorCheckpoint:
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
        stored_tokenizer = StoredTokenizer(tokenizer.get_vocabulary(), tokenizer_settings(tokenizer.get_config()))
    where = pathlib.Path(f"keras_hub {type(model).__name__}")
    task = {}
    if model is not backbone:
        names = ("num_classes", "dropout", "activation")
        fields = {name: value for name, value in model.get_config().items() if name in names}
        fields["activation"] = getattr(fields.get("activation"), "__name__", fields.get("activation"))
        task = {"class_name": f"keras_hub>{type(model).__name__}", "config": fields}
    length = preprocessor and preprocessor.sequence_length
    return kerashub_checkpoint(
        where, backbone.get_config(), task, stored_tokenizer, length, KerasHubVariables(where, model)
    )
