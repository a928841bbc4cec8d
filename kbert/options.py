"""Options: everything that a person sets, defined once.

A typed keyword of a verb, or a field of a group of `Options`, has its name, type, bounds and default in one place, and
a sentence in the docstring's ``Args:``. From there come the check of its value, settings.json, the flag of the command
`kbert` and its help, and the page of the API.
"""

import dataclasses
import difflib
import functools
import inspect
import numbers
import os
import pathlib
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from kbert.aliases import PathLike
from kbert.checks import Bounds, check_option
from kbert.errors import user_errors

Count = Annotated[int, Bounds("[1, inf)")]
Natural = Annotated[int, Bounds("[0, inf)")]
ShardTokens = Annotated[int, Bounds("[1, 268435456]")]  # training holds a shard in memory
Positive = Annotated[float, Bounds("(0, inf)")]
NonNegative = Annotated[float, Bounds("[0, inf)")]
Strategy = Literal["auto", "one", "mirrored", "multiworker", "tpu"]
Xla = Literal["auto", "on", "off"]
Precision = Literal["auto", "float32", "mixed_bfloat16", "mixed_float16"]
CorpusFormat = Literal["auto", "lines", "prose", "wikiextractor"]
Fraction = Annotated[float, Bounds("[0, 1]")]
NonzeroFraction = Annotated[float, Bounds("(0, 1]")]
FractionBelowOne = Annotated[float, Bounds("[0, 1)")]

NOT_RECORDED = "not recorded"  # Annotated[…, NOT_RECORDED]: not in settings.json, such as where a run writes


def check_fields(group: Any, prepare: Callable[[str, Any], Any] = lambda name, value: value) -> None:
    """Checks a frozen dataclass' fields by their annotations after `prepare`; np.int64(3) becomes 3, a list a tuple."""
    for field in dataclasses.fields(group):
        value = prepare(field.name, getattr(group, field.name))
        value = check_option(type(group).__name__, field.name, value, field.type)
        object.__setattr__(group, field.name, value)  # the one place that changes a frozen object: as it is made


def fixed_by_model(task: type) -> set[str]:
    """The fields of a class of task objects that cannot be chosen any more once the model is trained."""
    return {field.name for field in dataclasses.fields(task) if {"of_model", "of_training"} & field.metadata.keys()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Base of a group of options: a frozen dataclass whose fields are checked by their annotations.

    Raises:
        ValueError: a value of another type or out of bounds.

    Example::

        @dataclasses.dataclass(frozen=True, kw_only=True)
        class Masking(Options):
            rate: NonzeroFraction = 0.15

        Masking(rate=2)  # ValueError: Masking: `rate` must be a number in (0, 1]. Received: 2
    """

    def __post_init__(self):
        check_fields(self)

    def to_json(self) -> dict[str, Any]:
        """The fields that define a run, as settings.json has them."""
        return {
            field.name: to_json(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if is_recorded(field.type)
        }


def is_recorded(annotation: Any) -> bool:
    """Whether settings.json has an option."""
    return typing.get_origin(annotation) is not Annotated or NOT_RECORDED not in typing.get_args(annotation)[1:]


def to_json(value: Any) -> Any:
    """A value as JSON holds it: groups and mappings as objects, tuples as lists, paths as strings."""
    if isinstance(value, Options):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, numbers.Real) and not isinstance(value, int):
        return float(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value


P = typing.ParamSpec("P")
R = typing.TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Checks and converts the arguments of each call of a public function by their annotations (`check_option`).

    With ``rate: float`` the function receives 2.0 for 2.
    Its errors that a user can fix are marked as `kbert.errors.UserError`.

    Raises:
        TypeError: an unknown or missing argument; the message names the option that was meant.
        ValueError: a value of another type or out of bounds.

    Example::

        @checked
        def train(corpus: PathLike, *, steps: Count = 1000): ...

        train("a.txt", step=3)  # TypeError: train: unknown argument `step`. Did you mean `steps`?
    """
    signature = inspect.signature(function)
    owner, parameters = function.__name__, signature.parameters

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with user_errors():
            if unknown := [name for name in kwargs if name not in parameters]:
                raise TypeError(f"{owner}: unknown argument `{unknown[0]}`. {_meant(unknown[0], parameters)}")
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{owner}: {error}") from None
            for name, value in bound.arguments.items():
                bound.arguments[name] = check_option(owner, name, value, parameters[name].annotation)
            return function(*bound.args, **bound.kwargs)

    return call


def _meant(name, parameters) -> str:
    """The option of a function, or of one of its groups, that was probably meant."""
    for parameter in parameters.values():
        group = parameter.default
        if isinstance(group, Options) and name in (field.name for field in dataclasses.fields(group)):
            return f"It is a field of `{parameter.name}`: {parameter.name}={type(group).__name__}({name}=…)"
    return suggest(name, parameters)


def suggest(name: str, names: Iterable[str], otherwise: str | None = None) -> str:
    """The sentence of an error about an unknown name: what was meant, or `otherwise`. Defaults to all names."""
    near = difflib.get_close_matches(name, names, 1)
    return f"Did you mean `{near[0]}`?" if near else otherwise or f"Known: {', '.join(names)}"


def record(function: Callable, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call as settings.json has them: as JSON, by the names of their flags.

    Fields of groups have their own names. Arguments without annotation, or marked `NOT_RECORDED`, are left out.

    Args:
        function: the function that is called.
        arguments: its arguments by name: ``locals()`` on the first line of its body.

    Example::

        @checked
        def train(corpus: PathLike, *, steps: Count = 1000):
            settings = record(train, locals())
    """
    recorded: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.annotation is not parameter.empty and is_recorded(parameter.annotation):
            value = arguments[name]
            recorded |= value.to_json() if isinstance(value, Options) else {name: to_json(value)}
    return recorded


def grouped(function: Callable, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, with the fields of groups in their groups: the opposite of `record`."""
    arguments = dict(values)
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(group := parameter.default, Options):
            own = {field.name for field in dataclasses.fields(group)} & values.keys()
            if fields := {field: arguments.pop(field) for field in own}:
                arguments[name] = dataclasses.replace(group, **fields)
    return arguments


def read_config(path: PathLike) -> dict[str, Any]:
    """The values of a configuration file, YAML or JSON, such as a run's settings.json: by the names of flags."""
    import yaml

    class Loader(yaml.SafeLoader):
        """YAML 1.1 takes 1e-4 for a word, JSON and people for a number."""

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), "-+0123456789"
    )
    try:
        values = yaml.load(pathlib.Path(path).read_text("utf-8"), Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"--config {path}: expected YAML or JSON. Received: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ValueError(f"--config {path}: expected names with values. Received: {values!r}")
    return values


def option_help(documented: Any) -> dict[str, str]:
    """The sentences of ``Args:`` in the docstring of a verb or a group: name → text in one line.

    A group has those of its base, too, unless its own docstring says something else of a field.
    """
    texts: dict[str, str] = {}
    for source in reversed(documented.__mro__) if isinstance(documented, type) else [documented]:
        section = re.search(r"^Args:\n((?:    .*\n|\n)*)", (inspect.getdoc(source) or "") + "\n", re.MULTILINE)
        for entry in re.split(r"\n    (?=\S)", "\n" + section[1].rstrip()) if section else []:
            names, _, text = entry.partition(": ")
            for name in filter(None, (name.strip(" *") for name in names.split(","))):
                texts[name] = " ".join(text.split())
    return texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine(Options):
    """How a model is compiled and where; `kbert.training.choose_hardware` explains the choices.

    Args:
        xla: "auto" compiles on one GPU, else not.
        logical_cpus: the number of devices to split the CPU into, to try "mirrored" without GPUs.
    """

    xla: Xla = "auto"
    logical_cpus: Count | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimization(Options):
    """The update of the weights; the defaults are the paper's.

    Args:
        optimizer: "adamw", or "lamb" for batches of thousands of sequences.
        weight_decay: of all weights but biases and layer normalisations; times the learning rate, at each step.
        bias_correction: Adam as published, with bias correction; BERT was trained without. "lamb" always has it.
        layer_decay: the ratio of a layer's learning rate to that of the layer above; None: the same rate for all.
        accumulate: the number of micro-batches into which a replica divides its fraction of an update: less memory, the
            same update.
    """

    optimizer: Literal["adamw", "lamb"] = "adamw"
    weight_decay: Fraction = 0.01
    bias_correction: bool = False
    layer_decay: NonzeroFraction | None = None
    accumulate: Count = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distillation(Options):
    """How a student learns from its teacher.

    Args:
        teacher_temperature: what the logits of teacher and student are divided by before they are compared.
        hard_fraction: the weight of the label loss. 0 trains on the teacher's answers alone.
    """

    teacher_temperature: Positive = 2.0
    hard_fraction: Fraction = 0.5
