"""Which model to build: task, architecture and constructor arguments, as plain data."""

import dataclasses
import inspect
import reprlib
from typing import Any

from kbert.config import ACTIVATIONS, BertConfig
from kbert.models.encoder import BertEncoder
from kbert.models.quantized_layers import check_quantized, quantize_layers, quantized_layers
from kbert.models.trainability import check_trainability, set_trainability, trainability
from kbert.pipelines.registry import task_class, task_names

# Fields of BertConfig that do not shape the weights; the others cannot be overridden.
FREE_FIELDS = (
    "hidden_dropout",
    "attention_dropout",
    "activation",
    "layer_norm_epsilon",
    "initializer_stddev",
    "causal",
    "pooled_token",
)
_WITHOUT_VARIABLES = ("dropout", "multi_label", "outputs")  # constructor arguments that add or change no variable
_NOT_ARGUMENTS = ("name", "trainable", "trainability", "quantized_layers", "lora_layers", "encoder", "config", "dtype")


@dataclasses.dataclass(frozen=True)
class ModelDescription:
    """What is needed to build a model again, without its weights."""

    task: str
    config: BertConfig
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)  # of the model's constructor
    encoder_arguments: dict[str, Any] | None = None  # of the encoder's; None: what the task needs
    quantized_layers: dict[str, str] = dataclasses.field(default_factory=dict)  # path of the layer -> "int8"
    trainability: list[list] = dataclasses.field(default_factory=list)  # see kbert.models.trainability

    def __post_init__(self):
        if self.task not in task_names():
            raise ValueError(f"Expected `task` to be one of {task_names()}. Received: {self.task!r}")
        for arguments in (self.arguments, self.encoder_arguments or {}):
            if not isinstance(arguments, dict):
                raise ValueError(f"Expected an object of arguments. Received: {reprlib.repr(arguments)}")
        names = self.argument_names(self.task)
        unknown = sorted(set(self.arguments) - set(names))
        if unknown:
            raise ValueError(f"A {self.task} model has no arguments {unknown}. Known: {sorted(names)}")
        for arguments in (self.arguments, self.encoder_arguments or {}):
            for name, value in arguments.items():
                check_argument(name, value)
        check_quantized(self.quantized_layers)
        check_trainability(self.trainability)

    @classmethod
    def from_model(cls, model) -> "ModelDescription":
        if getattr(model, "task", None) not in task_names() or not isinstance(
            getattr(model, "config", None), BertConfig
        ):
            raise ValueError(f"Expected one of kbert's models, or a Pipeline with one. Received: {model!r}")
        arguments = _own_arguments(model.get_config())
        task = task_class(model.task)
        for name in task.model_arguments:
            arguments.pop(name)
        encoder_arguments = _own_arguments(model.encoder.get_config()) if task.stands_on_encoder else None
        return cls(model.task, model.config, arguments, encoder_arguments, quantized_layers(model), trainability(model))

    @staticmethod
    def argument_names(task: str, required: bool = False) -> tuple[str, ...]:
        """Arguments of the task's model besides encoder and dtype; with `required` only those without a default."""
        task = task_class(task)
        elsewhere = {"self", *_NOT_ARGUMENTS, *task.model_arguments}
        if task.stands_on_encoder:
            elsewhere.add("num_parts")  # an argument of the encoder
        parameters = inspect.signature(task.model_class().__init__).parameters.values()
        own = [p for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in elsewhere]
        return tuple(p.name for p in own if not required or p.default is p.empty)

    def build(self, dtype=None):
        """A newly initialised model, quantised and frozen as described, with this dtype policy."""
        task, base = task_class(self.task), self.config
        if self.encoder_arguments is not None:
            base = BertEncoder(self.config, dtype=dtype, **self.encoder_arguments)
        model = task.model_class()(base, dtype=dtype, **self.arguments, **task.model_arguments)
        quantize_layers(model, self.quantized_layers)
        set_trainability(model, self.trainability)
        return model

    def has_the_variables_of(self, other: "ModelDescription") -> bool:
        """Whether a weights file of one model fits the other."""
        return self._structure() == other._structure()

    def _structure(self):
        def shaping(arguments):
            return {k: v for k, v in (arguments or {}).items() if k not in _WITHOUT_VARIABLES}

        config = {k: v for k, v in self.config.to_dict().items() if k not in FREE_FIELDS}
        has_encoder = self.encoder_arguments is not None  # None, the task's default, is not known to be equal
        arguments = shaping(self.arguments), has_encoder, shaping(self.encoder_arguments)
        return self.task, config, arguments, self.quantized_layers


def check_argument(name: str, value: Any) -> None:
    """Raises ValueError for a constructor argument, from a file, with which no model can be built."""
    positive = type(value) is int and value > 0
    number = type(value) in (int, float)
    sound, expected = {
        "num_labels": (positive, "a positive integer"),
        "num_parts": (value is None or positive, "null or a positive integer"),
        "dropout": (value is None or (number and 0 <= value < 1), "null or a number in [0, 1)"),
        "head_layer_norm_epsilon": (value is None or (number and value > 0), "null or a positive number"),
        "head_activation": (value is None or value in ACTIVATIONS, f"null or one of {ACTIVATIONS}"),
        "tied": (type(value) is bool, "true or false"),
        "multi_label": (type(value) is bool, "true or false"),
        "pooler": (type(value) is bool, "true or false"),
        "outputs": (_are_strings(value), "a list of names"),
    }.get(name, (True, ""))
    if not sound:
        raise ValueError(f"`{name}` must be {expected}. Received: {reprlib.repr(value)}")


def _are_strings(value):
    return isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(name, str) for name in value))


def _own_arguments(config):
    return {key: value for key, value in config.items() if key not in _NOT_ARGUMENTS}
