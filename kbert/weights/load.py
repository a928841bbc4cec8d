"""A stored model → a model of any task."""

import contextlib
import dataclasses
import logging
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbert.aliases import PathLike
from kbert.checks import check_labels, check_path
from kbert.config import BertConfig
from kbert.keras_compat import deferred_variables
from kbert.pipelines.registry import task_class, task_names
from kbert.pipelines.settings import DEFAULT_SEQUENCE_LENGTH, ModelSettings, default_labels
from kbert.text.tokenizer import BertTokenizer
from kbert.text.vocabulary import PAD
from kbert.weights.description import (
    ENCODER_ARGUMENTS,
    FREE_FIELDS,
    ModelDescription,
    check_settings,
    check_vocabulary_fits,
)
from kbert.weights.formats.checkpoint import NO_VOCABULARY, Checkpoint, TensorCheckpoint, warn_of_wrong_casing
from kbert.weights.provenance import stored_provenance
from kbert.weights.report import LoadReport
from kbert.weights.source import local_source, open_checkpoint

if TYPE_CHECKING:
    import keras

    from kbert.models.bert_model import BertModel

_LOGGER = logging.getLogger("kbert")
_TOKENIZER_ARGUMENTS = ("lowercase", "strip_accents", "split_on_cjk", "max_word_length", "special_tokens_in_text")
_MASKED_LM_ARGUMENTS = ("tied", "head_activation", "head_layer_norm_epsilon")  # belong to weights of that head


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """The value of ``model.pretrained``: tokenizer, settings and report of a loaded model.

    Example::

        model = kbert.load_pretrained("runs/sst2/model")
        model.pretrained.settings.task.labels  # ("negative", "positive")
        print(model.pretrained.report)
    """

    tokenizer: BertTokenizer | None  # None: the checkpoint has no vocabulary
    settings: ModelSettings
    report: LoadReport


def load_pretrained(
    source: PathLike | Checkpoint,
    task: str | None = None,
    *,
    revision: str | None = None,
    token: str | None = None,
    dtype: "str | keras.DTypePolicy | None" = None,
    vocabulary: PathLike | None = None,
    **overrides,
) -> "BertModel":
    """Loads a model, with its tokenizer and settings, from a directory, file or name of any format.

    The format is recognised by content: what `save_pretrained` or a run wrote, a Hugging Face directory (or a name
    on its hub), Google's TensorFlow checkpoints. No code from a checkpoint is executed. Nothing is
    built before all files have been checked.

    For a task other than the stored one, the encoder and every head that both have are loaded (for example the
    masked-LM head of a pre-trained model for ``task="masked_lm"``).

    The logger "kbert" gets a line about what was loaded (INFO), one for each part that is new and has to be trained
    (WARNING) or is not used (INFO), and one for each variable (DEBUG). The report has all of it. A missing vocabulary,
    and a number of labels that is neither given nor stored, are warnings, too.

    Args:
        source: a model directory of kbert or Hugging Face, the path of its ``model.safetensors`` or
            ``pytorch_model.bin``, or a run's output with a model directory in ``model/``. Google's
            ``bert_model.ckpt``, or its directory. With ``huggingface_hub`` installed, a name on the hub such as
            ``google-bert/bert-base-uncased``, or ``google-bert/bert-base-uncased@main`` with a branch, tag or commit.
            Or what `kbert.weights.open_checkpoint` returned.
        task: one of ``encoder, pretraining, masked_lm, next_sentence, classification, regression, span, tagging,
            multiple_choice, similarity``; None: the stored one.
        revision: branch, tag or commit of a name on the hub, where `source` does not have it; None: the main branch.
        token: access token for private repositories on the hub; None: HF_TOKEN, or the one that ``hf auth login``
            stored.
        dtype: dtype policy, such as ``"mixed_bfloat16"``.
        vocabulary: path of a ``vocab.txt``, for a checkpoint that has none, or a wrong one.
        **overrides: replace what is stored, or give what the new task needs: arguments of the model's constructor
            (``num_labels, dropout, tied`` ...) and of `BertEncoder` (``outputs, num_parts, pooler``),
            ``sequence_length``, fields of the task object (``labels, pair, thresholds`` ...), arguments of
            `BertTokenizer` (``lowercase`` ...), and fields of `BertConfig` that do not shape the weights
            (``hidden_dropout, attention_dropout`` ...). ``labels``, or else ``thresholds``, give ``num_labels``. A
            stored head is loaded with its own labels. One with default labels (``LABEL_0`` …, ``0`` …, or none) takes
            the labels given. For other labels the head is new, and stored thresholds are dropped.
            (``build_pipeline(model, labels=...)`` only renames them.)

    Returns:
        The model. ``model.pretrained`` is a `Pretrained`: ``tokenizer`` (None for a checkpoint without a vocabulary),
        ``settings`` and ``report``, which says of every variable whether it was loaded, newly initialised, or not used.

    Raises:
        TypeError: `source` is neither a path nor a name, or `vocabulary` is not a path.
        FileNotFoundError: no such source, or missing files.
        ValueError: damaged files, a vocabulary that does not fit, an incomplete encoder, or something that kbert cannot
            represent (the message says why). An unknown task or override, a tagger without a number of labels, or the
            stored labels in another order.

    Example::

        model = kbert.load_pretrained("runs/pretrain", task="classification", labels=["bad", "good"])
        pipeline = kbert.build_pipeline(model)
    """
    if vocabulary is not None:
        check_path(vocabulary, "load_pretrained: `vocabulary`", "the path of a vocab.txt")
    stored = source
    if not isinstance(source, Checkpoint):
        stored = open_checkpoint(source, vocabulary, revision=revision, token=token)
    description, settings = _wanted(stored, task, overrides)
    new = _new_head(stored, description.task, settings.task.labels)
    _check_quantized(stored, description, new)
    tokenizer = None
    if stored.vocabulary is not None:
        warn_of_wrong_casing(stored.vocabulary, settings.tokenizer.get("lowercase", True), str(stored.path))
        tokenizer = _named(stored.path, BertTokenizer, stored.vocabulary, **settings.tokenizer)
        check_vocabulary_fits(str(stored.path), tokenizer, description.config)
    streams = isinstance(stored, TensorCheckpoint) and not description.quantized_layers
    with deferred_variables() if streams else contextlib.nullcontext():
        model = _named(stored.path, description.build, dtype)
        report = stored.load_into(model, new)
    report.log()
    if tokenizer is None:
        _LOGGER.warning("%s: %s", stored.path, NO_VOCABULARY)
    if "num_labels" in ModelDescription.argument_names(model.task) and "num_labels" not in description.arguments:
        _LOGGER.warning(
            "%s: neither `labels` nor `num_labels` is given or stored; the head has %d labels",
            *(model.task, model.num_labels),
        )
    model.pretrained = Pretrained(tokenizer, settings, report)
    is_whole = model.task == stored.description.task and not report.newly_initialised
    model.provenance = stored_provenance(stored.path, _hub_name(source, revision), is_whole)
    return model


def head_labels(stored: Sequence[str] | None, wanted: Sequence[str]) -> list[str] | None:
    """The labels, in the order of its logits, with which a head of N labels serves for N labels wanted.

    If they are the stored labels, in whatever order, the stored ones. If the head has default labels (None, ``0, 1 …``,
    or ``LABEL_0, LABEL_1 …`` of transformers), the ones wanted. Otherwise None: the head is one of other labels.
    """
    if stored is not None and set(stored) == set(wanted):
        return list(stored)
    return list(wanted) if stored is None or list(stored) in default_labels(len(wanted)) else None


def _hub_name(source, revision: str | None) -> str | None:
    """The name of a model on the hub, with the revision that was asked for; None: a path."""
    if isinstance(source, Checkpoint) or local_source(source) is not None:
        return None
    return source if revision is None else f"{source}@{revision}"


def _new_head(stored: Checkpoint, task: str, labels: Sequence[str] | None) -> tuple[str, ...]:
    """The layers whose stored weights belong to other labels: the whole head, or none."""
    stored_labels = stored.settings.task.labels
    labels = labels and list(labels)
    if task != stored.description.task or labels is None or len(labels) != len(stored_labels or labels):
        return ()
    if (kept := head_labels(stored_labels, labels)) not in (None, labels):
        raise ValueError(
            f"load_pretrained: expected `labels` in the order of the stored head, {kept}, as they name its logits. "
            f"Received: {labels}"
        )
    return task_class(task).heads if kept is None else ()


def _check_quantized(stored: Checkpoint, description: ModelDescription, new: Sequence[str]) -> None:
    own = stored.description
    is_own = (description.task, description.arguments) == (own.task, own.arguments)
    if own.quantized_layers and (new or not is_own):
        raise ValueError(
            f"load_pretrained: {stored.path} is quantised: it can only be loaded as it is, for the task "
            f"{own.task}. Load the model that it was made from for another task."
        )


def _named(path: pathlib.Path, make: Callable, *arguments, **options):
    """What `make` returns. Its errors name the path, whose files have the arguments."""
    try:
        return make(*arguments, **options)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _wanted(stored: Checkpoint, task: str | None, overrides: dict[str, Any]) -> tuple[ModelDescription, ModelSettings]:
    own = stored.description
    task = task or own.task
    if task not in task_names():
        raise ValueError(f"load_pretrained: `task` must be one of {task_names()}. Received: {task!r}")
    names = ModelDescription.argument_names(task)
    options = ("sequence_length", *task_class(task).option_names())
    known = {*options, *FREE_FIELDS, *names, *_TOKENIZER_ARGUMENTS, *ENCODER_ARGUMENTS}
    if unknown := sorted(set(overrides) - known):
        raise ValueError(
            f"load_pretrained: unknown arguments {unknown}. Known: {sorted(known)} (sizes of the stored weights "
            "cannot be overridden)"
        )

    def given(names):
        return {name: overrides[name] for name in names if name in overrides}

    settings, arguments = stored.settings, own.arguments
    encoder, quantized = own.encoder_arguments, own.quantized_layers
    if task != own.task:
        settings = _for_task(task, stored)
        kept = {name: value for name, value in arguments.items() if name in _MASKED_LM_ARGUMENTS}
        kept |= stored.other_options  # such as the `pooling` of sentence-transformers
        arguments, encoder, quantized = {name: value for name, value in kept.items() if name in names}, {}, {}
    settings = settings.replace(tokenizer={**settings.tokenizer, **given(_TOKENIZER_ARGUMENTS)})
    settings = _with_options(settings, given(options), overrides)
    fields = given(FREE_FIELDS)
    if stored.vocabulary is not None and PAD in stored.vocabulary:  # else the tokenizer refuses it
        fields.setdefault("pad_token_id", stored.vocabulary.index(PAD))
    if settings.task.labels and "num_labels" in names:
        arguments = arguments | {"num_labels": len(settings.task.labels)}
    arguments = arguments | given(names)
    if settings.task.thresholds:
        arguments.setdefault("num_labels", len(settings.task.thresholds))
    if task == "tagging" and "num_labels" not in arguments:  # a classifier has two by default
        raise ValueError(
            f"load_pretrained: a {task} model needs `labels`, or their number as `num_labels`. {stored.path} has none"
        )
    if overrides.get("pooler") is False and encoder.get("outputs"):
        encoder = encoder | {"outputs": [name for name in encoder["outputs"] if name != "pooled_output"] or None}
    config = BertConfig.from_dict(own.config.to_dict() | fields)
    description = ModelDescription(task, config, arguments, encoder | given(ENCODER_ARGUMENTS), quantized)
    check_settings("load_pretrained", settings, description, frozenset(overrides))
    return description, settings


def _for_task(word: str, stored: Checkpoint) -> ModelSettings:
    """Settings for another task: its task object has the fields of the stored one that do not belong to the head.

    A field that is None there, such as a tagger's `doc_stride`, has its default.
    """
    task = task_class(word)
    names = set(task.option_names()) - {"labels", "thresholds"}
    fields = {name: value for name, value in stored.settings.task.options().items() if value is not None}
    fields |= {**stored.description.arguments, **stored.other_options}  # as the `pooling` of a similarity model
    settings = stored.settings.replace(task=task(**{name: value for name, value in fields.items() if name in names}))
    if task.default_length == DEFAULT_SEQUENCE_LENGTH:
        return settings
    longest = stored.description.config.max_sequence_length
    return settings.replace(sequence_length=task.default_sequence_length(longest))


def _with_options(settings: ModelSettings, options: dict[str, Any], overrides: Mapping[str, Any]) -> ModelSettings:
    """Settings with the options that are given. With other labels the stored ones and their thresholds are dropped."""
    stored = list(settings.task.labels or ())
    if options.get("labels") is not None:
        options["labels"] = check_labels(options["labels"], "load_pretrained")
    dropped = {}
    if overrides.get("multi_label") is False:
        dropped = {"thresholds": None}
    if list(options.get("labels", stored) or ()) != stored or overrides.get("num_labels") not in (None, len(stored)):
        dropped = {"labels": None, "thresholds": None}
    dropped = {name: value for name, value in dropped.items() if name in settings.task.option_names()}
    try:
        return settings.replace(**dropped | options)
    except ValueError as error:
        raise ValueError(f"load_pretrained: {error}") from None
