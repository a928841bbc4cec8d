"""A stored model → a model of any task."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbert.aliases import PathLike
from kbert.checks import check_labels, check_path
from kbert.config import BertConfig
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
from kbert.weights.formats.checkpoint import NO_VOCABULARY, Checkpoint, warn_of_wrong_casing
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

    The format is recognised by content: what `save_pretrained` or a recipe wrote, a Hugging Face directory (or a name
    on its hub), Google's TensorFlow checkpoints. No code from a checkpoint is executed. Nothing is
    built before all files have been checked.

    For a task other than the stored one, the encoder and every head that both have are loaded (for example the
    masked-LM head of a pre-trained model for ``task="masked_lm"``).

    The logger "kbert" gets a line about what was loaded (INFO), one for each part that is new and has to be trained
    (WARNING) or is not used (INFO), and one for each variable (DEBUG). The report has all of it. A missing vocabulary,
    and a number of labels that is neither given nor stored, are warnings, too.

    Args:
        source: a model directory of kbert or Hugging Face, the path of its weights, or a recipe's output with a model
            directory in ``model/``. Google's ``bert_model.ckpt``, or its directory. With ``huggingface_hub``
            installed, a name on the hub such as ``google-bert/bert-base-uncased``, or
            ``google-bert/bert-base-uncased@main`` with a branch, tag or commit. Or what `kbert.weights.open_checkpoint`
            returned.
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
        tokenizer = _tokenizer(stored, settings)
        check_vocabulary_fits(str(stored.path), tokenizer, description.config)
    model = _build(stored, description, dtype)
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
    model.provenance = stored_provenance(stored.path, _hub_name(source, revision))
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
    is_other = description.task != own.task or description.arguments.get("num_labels") != own.arguments.get(
        "num_labels"
    )
    if own.quantized_layers and (new or is_other):
        raise ValueError(
            f"load_pretrained: {stored.path} is quantised: it can only be loaded as it is, for the task "
            f"{own.task}. Load the model that it was made from for another task."
        )


def _build(stored: Checkpoint, description: ModelDescription, dtype):
    try:
        return description.build(dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{stored.path}: {error}") from error


def _tokenizer(stored: Checkpoint, settings: ModelSettings) -> BertTokenizer:
    try:
        return BertTokenizer(stored.vocabulary, **settings.tokenizer)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{stored.path}: the tokenizer's settings {settings.tokenizer}: {error}") from error


def _wanted(stored: Checkpoint, task: str | None, overrides: dict[str, Any]) -> tuple[ModelDescription, ModelSettings]:
    task = task or stored.description.task
    if task not in task_names():
        raise ValueError(f"load_pretrained: `task` must be one of {task_names()}. Received: {task!r}")
    overridden = frozenset(overrides)
    leaves_pooler_out = overrides.get("pooler") is False and "outputs" not in overrides
    settings = _with_settings(stored, task, overrides)
    config = _with_fields(stored, overrides)
    names = ModelDescription.argument_names(task)
    same_task = task == stored.description.task
    kept = set(names if same_task else _MASKED_LM_ARGUMENTS)
    if settings.task.labels is not None:  # labels give it
        kept.discard("num_labels")
    arguments = {name: value for name, value in stored.description.arguments.items() if name in kept & set(names)}
    if not same_task:  # as the `pooling` of sentence-transformers
        arguments |= {name: value for name, value in stored.other_options.items() if name in names}
    arguments |= {name: overrides.pop(name) for name in names if name in overrides}
    encoder_arguments = stored.description.encoder_arguments if same_task else None
    if own := {name: overrides.pop(name) for name in ENCODER_ARGUMENTS if name in overrides}:
        encoder_arguments = {**(encoder_arguments or {}), **own}
    for group in (arguments, encoder_arguments or {}) if leaves_pooler_out else ():
        if "outputs" in group:
            group["outputs"] = [name for name in group["outputs"] if name != "pooled_output"] or ["sequence_output"]
    if overrides:
        known = {*_settings_names(task), *FREE_FIELDS, *names, *_TOKENIZER_ARGUMENTS, *ENCODER_ARGUMENTS}
        raise ValueError(f"load_pretrained: unknown arguments {sorted(overrides)}. Known: {sorted(known)}")
    one_each = settings.task.labels or settings.task.thresholds
    if one_each and "num_labels" in names:
        arguments.setdefault("num_labels", len(one_each))
    if task == "tagging" and "num_labels" not in arguments:  # a classifier has two by default
        raise ValueError(
            f"load_pretrained: a {task} model needs `labels`, or their number as `num_labels`. {stored.path} has none"
        )
    quantized = stored.description.quantized_layers if same_task else {}
    description = ModelDescription(task, config, arguments, encoder_arguments, quantized)
    check_settings("load_pretrained", settings, description, overridden)
    return description, settings


def _with_settings(stored: Checkpoint, task: str, overrides: dict[str, Any]) -> ModelSettings:
    settings = stored.settings
    tokenizer = dict(settings.tokenizer)
    tokenizer |= {name: overrides.pop(name) for name in _TOKENIZER_ARGUMENTS if name in overrides}
    settings = settings.replace(tokenizer=tokenizer)
    if task != settings.task.name:
        stated = {**stored.description.arguments, **stored.other_options}  # as the `pooling` of a similarity model
        settings = settings.replace(task=_as_task(task, settings.task, stated))
        if settings.task.default_length != DEFAULT_SEQUENCE_LENGTH:  # a length that the task depends on
            longest = stored.description.config.max_sequence_length
            settings = settings.replace(sequence_length=settings.task.default_sequence_length(longest))
    fields = {}
    stored_labels = settings.task.labels
    if overrides.get("labels") is not None:
        overrides["labels"] = check_labels(overrides["labels"], "load_pretrained")
    is_other_number = overrides.get("num_labels") not in (None, len(stored_labels or ()))
    labels = overrides.get("labels", stored_labels)
    fields_of_task = task_class(task).option_names()
    if is_other_number or list(labels or ()) != list(stored_labels or ()):
        fields |= {name: None for name in ("labels", "thresholds") if name in fields_of_task}
    elif overrides.get("multi_label") is False and "thresholds" in fields_of_task:
        fields["thresholds"] = None
    fields |= {name: overrides.pop(name) for name in _settings_names(task) if name in overrides}
    try:
        return settings.replace(**fields)
    except ValueError as error:
        raise ValueError(f"load_pretrained: {error}") from None


def _as_task(word: str, other, stated: Mapping[str, Any]):
    """The object of task `word`, with the fields of another task's object that do not belong to the head.

    A field that is None there, such as a tagger's `doc_stride`, has its default.
    """
    task = task_class(word)
    names = set(task.option_names()) - {"labels", "thresholds"}
    fields = {name: value for name, value in other.options().items() if value is not None}
    return task(**{name: value for name, value in (fields | stated).items() if name in names})


def _with_fields(stored: Checkpoint, overrides: dict[str, Any]) -> BertConfig:
    config = stored.description.config
    fixed = sorted(set(overrides) & (set(config.to_dict()) - set(FREE_FIELDS)))
    if fixed:
        raise ValueError(
            f"load_pretrained: {fixed} cannot be overridden, the stored weights have that shape. "
            f"What can: {list(FREE_FIELDS)}"
        )
    fields = {name: overrides.pop(name) for name in FREE_FIELDS if name in overrides}
    if stored.vocabulary is not None and PAD in stored.vocabulary:  # else the tokenizer refuses it
        fields.setdefault("pad_token_id", stored.vocabulary.index(PAD))
    return BertConfig.from_dict({**config.to_dict(), **fields})


def _settings_names(task: str) -> tuple[str, ...]:
    return ("sequence_length", *task_class(task).option_names())
