"""Which model to build: task, architecture and constructor arguments, as plain data; which settings fit it."""

import dataclasses
import reprlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from kbert.checks import check_option
from kbert.config import BertConfig
from kbert.models.bert_model import BertModel
from kbert.models.encoder import BertEncoder
from kbert.models.quantized_layers import check_quantized, quantize_layers, quantized_layers
from kbert.options import Count
from kbert.pipelines.registry import task_class
from kbert.pipelines.settings import ModelSettings
from kbert.weights.formats.config_names import SIZES

if TYPE_CHECKING:
    import keras

    from kbert.text.tokenizer import BertTokenizer

# Fields of BertConfig that do not shape the weights; the others cannot be overridden.
FREE_FIELDS = tuple(
    field.name for field in dataclasses.fields(BertConfig) if field.name not in (*SIZES, "position_embedding")
)
_MOST = 4096  # limit of a count, if the position table is shorter
ENCODER_ARGUMENTS = ("outputs", "num_parts", "pooler")


@dataclasses.dataclass(frozen=True)
class ModelDescription:
    """What is needed to build a model again, without its weights."""

    task: str
    config: BertConfig
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)  # of the head's constructor
    encoder_arguments: dict[str, Any] = dataclasses.field(default_factory=dict)  # {}: what the task needs
    quantized_layers: dict[str, str] = dataclasses.field(default_factory=dict)  # path of the layer -> "int8"

    def __post_init__(self):
        for arguments, names in (
            (self.arguments, self.argument_names(self.task)),
            (self.encoder_arguments, ENCODER_ARGUMENTS),
        ):
            if not isinstance(arguments, dict) or set(arguments) - set(names):
                raise ValueError(
                    f"Expected an object of arguments of a {self.task} model, {sorted(names)}. "
                    f"Received: {reprlib.repr(arguments)}"
                )
        check_quantized(self.quantized_layers)

    @property
    def has_pooler(self) -> bool:
        """Whether the encoder has a pooler."""
        return self.encoder_arguments.get("pooler", True)

    @classmethod
    def from_model(cls, model: BertModel) -> "ModelDescription":
        config, encoder = model.get_config(), model.encoder.get_config()
        arguments = {name: config[name] for name in cls.argument_names(model.task)}
        encoder_arguments = {name: encoder[name] for name in ENCODER_ARGUMENTS}
        return cls(model.task, model.config, arguments, encoder_arguments, quantized_layers(model))

    @staticmethod
    def argument_names(task: str) -> tuple[str, ...]:
        """Arguments of the task's model besides encoder and dtype."""
        task = task_class(task)
        return tuple(name for name in task.model_class().own_arguments if name not in task.model_arguments)

    def build(self, dtype: "str | keras.DTypePolicy | None" = None) -> BertModel:
        """A newly initialized model, quantized as described, with this dtype policy."""
        task, model = task_class(self.task), self.config
        if self.encoder_arguments or self.task == "encoder":
            model = BertEncoder(self.config, dtype=dtype, **self.encoder_arguments)
        if self.task != "encoder":
            model = task.model_class()(model, dtype=dtype, **self.arguments, **task.model_arguments)
        quantize_layers(model, self.quantized_layers)
        return model


def default_settings(
    task: str, config: BertConfig, tokenizer: dict[str, Any] | None = None, length: int | None = None
) -> ModelSettings:
    """The defaults of a task for a model of this config, with texts within the position table."""
    longest = config.max_sequence_length
    task = task_class(task).for_vocabulary(config.vocabulary_size)
    length = min(length, longest) if length else task.default_sequence_length(longest)
    return ModelSettings(task=task, sequence_length=length, tokenizer=tokenizer or {})


def check_settings(
    owner: Any, settings: ModelSettings, description: ModelDescription, given: Collection[str] = ()
) -> None:
    """Compares settings with the model, and bounds the sizes that take memory but do not show in the weights.

    `given` names the settings that were given and are not as stored (see `kbert.tasks.Task.check_options`).
    """
    check_sequence_length(owner, settings.sequence_length, description.config)
    try:
        _check_fields(settings, description)
        settings.task.check_options(given)
    except ValueError as error:
        raise ValueError(f"{owner}: {error}") from None


def _check_fields(settings, description):
    config = description.config
    task = settings.task
    counts = {name: value for name, value in task.options().items() if type(value) is int}
    most = dict.fromkeys(counts, max(config.max_sequence_length, _MOST)) | task.bounds(config)
    parts = description.encoder_arguments.get("num_parts")
    if parts is not None:
        counts["num_parts"] = check_option("BertEncoder", "num_parts", parts, Count)
        most["num_parts"] = config.max_sequence_length
    for name, bound in most.items():
        if counts[name] > bound:
            raise ValueError(f"`{name}` must be at most {bound}. Received: {reprlib.repr(counts[name])}")
    number = description.arguments.get("num_labels")
    for name, values in (("labels", task.labels), ("thresholds", task.thresholds)):
        if None not in (values, number) and len(values) != number:
            raise ValueError(
                f"expected {number} {name}, as many as the model has logits (num_labels). Received: {list(values)}"
            )
    if task.thresholds is not None and not description.arguments.get("multi_label"):
        raise ValueError(
            f"`thresholds` are a multi-label classifier's (multi_label=True). Received: {list(task.thresholds)}"
        )


def check_vocabulary_fits(owner: str, tokenizer: "BertTokenizer", config: BertConfig) -> None:
    rows = config.vocabulary_size
    if tokenizer.vocabulary_size != rows:
        advice = (
            "Tokens beyond the table cannot be looked up: this vocabulary belongs to another model."
            if tokenizer.vocabulary_size > rows
            else "If the table was filled up to a round size, fill the vocabulary up too: append lines such as "
            f"[filler0], [filler1] … until it has {rows}, and pass the file as `vocabulary`."
        )
        raise ValueError(
            f"{owner}: the vocabulary must have as many tokens as the table of word pieces has rows ({rows}). "
            f"Received: {tokenizer.vocabulary_size} tokens. {advice}"
        )
    if tokenizer.pad_id != config.pad_token_id:
        raise ValueError(
            f"{owner}: the vocabulary's [PAD] has another id than the model's. Received: {tokenizer.pad_id} and "
            f"pad_token_id={config.pad_token_id}. Build the model with BertConfig(pad_token_id={tokenizer.pad_id}), or "
            f"load it with load_pretrained(source, pad_token_id={tokenizer.pad_id})"
        )


def check_sequence_length(owner: Any, length: int, config: BertConfig) -> None:
    if length > config.max_sequence_length:
        raise ValueError(
            f"{owner}: `sequence_length` must be at most the model's position table, {config.max_sequence_length}. "
            f"Received: {length}"
        )
