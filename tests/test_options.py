"""Options: values are checked and converted by annotations, and described by docstrings."""

import dataclasses
import functools
import pathlib
from typing import Annotated, Literal

import numpy as np
import pytest
from helpers.wrong_values import wrong_values

from kbert.aliases import PathLike
from kbert.options import (
    NOT_RECORDED,
    Count,
    Machine,
    NonzeroFraction,
    Optimization,
    Options,
    Peak,
    checked,
    grouped,
    option_help,
    record,
    verb,
)
from kbert.pretraining.run.options import Execution


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masking(Options):
    rate: NonzeroFraction = 0.15
    phases: tuple[tuple[Count, float], ...] = ()
    path: PathLike | None = None
    log_every: Annotated[Count | None, NOT_RECORDED] = None


@verb(lambda arguments: arguments)
def train(
    source,
    *,
    steps: Count = 3,
    keep: Literal["best", "last"] = "best",
    evaluate_every: Literal["epoch"] | Count | None = "epoch",
    learning_rate: Peak = 1e-4,
    names: list[str] | None = None,
    masking: Masking = Masking(),
    is_dry: bool = False,
    output: Annotated[PathLike | None, NOT_RECORDED] = None,
):
    """Trains.

    Args:
        source: what is trained: a model.
        steps, keep: how long,
            and which weights: those of the last step.

    Returns:
        The arguments.
    """


def test_a_wrong_value_is_an_error_that_names_the_argument():
    wrong_values(
        functools.partial(train, "model"),
        ("steps", 0, "a positive integer.*Received: "),
        ("steps", True, "a positive integer.*Received: "),
        ("steps", 2.0, "a positive integer.*Received: "),
        ("steps", None, "a positive integer.*Received: "),
        ("keep", "worst", r"one of \('best', 'last'\).*Received: "),
        ("evaluate_every", 0, "'epoch', a positive integer or None.*Received: "),
        ("evaluate_every", False, "'epoch', a positive integer or None.*Received: "),
        ("learning_rate", 10**400, r"a number in \(0, inf\), the peak.*Received: "),
        ("learning_rate", float("nan"), r"a number in \(0, inf\), the peak.*Received: "),
        ("learning_rate", lambda step: step, r"a number in \(0, inf\), the peak.*Received: "),
        ("names", "one", "a list, each item a string or None.*Received: "),
        ("names", [1], "a list, each item a string or None.*Received: "),
        ("masking", 0.15, "a Masking.*Received: "),
        ("is_dry", "no", "True or False.*Received: "),
        ("output", 3, "a path or None.*Received: "),
        owner="^train: ",
    )


def test_a_wrong_field_is_an_error_that_names_the_group():
    wrong = (("rate", 0), ("rate", 1.5), ("phases", ((0, 0.5),)), ("phases", [1]), ("path", 1))
    for call in (Masking, lambda **field: train("model", masking=field)):
        wrong_values(call, *((field, value, "") for field, value in wrong), owner="^Masking: ")


def test_values_are_converted():
    arguments = train(
        "model",
        steps=np.int64(5),
        learning_rate=np.float32(0.5),
        is_dry=np.bool_(True),
        masking={"phases": [[128, 1]], "path": pathlib.Path("a/b"), "log_every": 3},
        output="runs/x",
    )
    assert (type(arguments.steps), type(arguments.learning_rate), arguments.is_dry) == (int, float, True)
    assert arguments.masking == Masking(phases=((128, 1.0),), path=pathlib.Path("a/b"), log_every=3)
    assert arguments.settings() == {
        "steps": 5,
        "keep": "best",
        "evaluate_every": "epoch",
        "learning_rate": 0.5,
        "names": None,
        "masking": {"rate": 0.15, "phases": [[128, 1.0]], "path": "a/b"},
        "is_dry": True,
    }


def test_unknown_and_missing_arguments():
    with pytest.raises(TypeError, match="train: got an unknown argument `step`. Did you mean `steps`"):
        train("model", step=3)
    with pytest.raises(TypeError, match="missing a required argument: 'source'"):
        train()
    assert train.__doc__.startswith("Trains.")


def test_the_help_of_an_option_is_its_sentence_in_the_docstring():
    both = "how long, and which weights: those of the last step."
    assert option_help(train) == {"source": "what is trained: a model.", "steps": both, "keep": both}
    for group in (Machine, Optimization, Execution):
        assert option_help(group).keys() == {field.name for field in dataclasses.fields(group)}


def test_options_of_a_group_have_their_own_names():
    arguments = train("model", rate=0.5, log_every=2, masking={"path": "a"})
    assert arguments.masking == Masking(rate=0.5, log_every=2, path="a")
    assert train("model", masking=Masking(rate=0.5), log_every=2).masking == Masking(rate=0.5, log_every=2)
    assert arguments.flat()["rate"] == 0.5 and arguments.flat()["steps"] == 3
    with pytest.raises(TypeError, match="got an unknown argument `rat`. Did you mean `rate`"):
        train("model", rat=0.5)
    with pytest.raises(TypeError, match="train: `masking` has no field `steps`"):
        train("model", masking={"steps": 1})
    with pytest.raises(ValueError, match="^train: `rate` must be "):
        train("model", rate=2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masks(Options):
    mask_rate: NonzeroFraction = 0.15
    phases: tuple[tuple[Count, float], ...] = ()
    path: PathLike | None = None
    log_every: Annotated[Count | None, NOT_RECORDED] = None


@checked
def fit(
    source,
    *,
    steps: Count = 3,
    rate: Peak | None = None,
    layers: tuple[int, ...] = (),
    masking: Masks = Masks(),
    output: Annotated[PathLike | None, NOT_RECORDED] = None,
    **others,
):
    """Fits."""
    return record(fit, locals()), locals()


@checked
def score(source: PathLike, *, batch_size: Count = 32, masking: Masks = Masks()) -> dict[str, object]:
    """Scores."""
    return {"source": source, "batch_size": batch_size}


def test_a_checked_function_is_called_with_converted_values():
    _, arguments = fit("model", steps=np.int64(5), rate=np.float32(0.5), layers=[1, 2], name="x")
    assert {name: (type(arguments[name]), arguments[name]) for name in ("steps", "rate", "layers")} == {
        "steps": (int, 5),
        "rate": (float, 0.5),
        "layers": (tuple, (1, 2)),
    }
    assert arguments["others"] == {"name": "x"} and arguments["source"] == "model"


def test_a_checked_function_names_what_is_wrong():
    wrong_values(
        functools.partial(score, "model"),
        ("batch_size", 0, "a positive integer.*Received: 0"),
        ("batch_size", "8", "a positive integer.*Received: '8'"),
        ("masking", 0.15, "a Masks.*Received: 0.15"),
        owner="^score: ",
    )
    wrong = {
        "batch_sise": "score: unknown argument `batch_sise`. Did you mean `batch_size`",
        "mask_rate": r"score: unknown argument `mask_rate`. It is a field of `masking`: masking=Masks\(mask_rate=…\)",
        "zzz": "score: unknown argument `zzz`. Known: source, batch_size, masking",
    }
    for name, message in wrong.items():
        with pytest.raises(TypeError, match=message):
            score("model", **{name: 3})
    with pytest.raises(TypeError, match="score: missing a required argument: 'source'"):
        score()
    with pytest.raises(TypeError, match="score: multiple values for argument 'source'"):
        score("model", source="other")


def test_settings_have_the_flags_of_the_arguments_that_are_recorded():
    settings, _ = fit("model", masking=Masks(mask_rate=0.5, phases=((8, 1.0),)), output="runs/x", log=3)
    assert settings == {"steps": 3, "rate": None, "layers": [], "mask_rate": 0.5, "phases": [[8, 1.0]], "path": None}


def test_recorded_settings_are_the_arguments_of_the_same_call():
    settings, _ = fit("model", steps=5, masking=Masks(mask_rate=0.5))
    assert grouped(fit, settings) == {
        "steps": 5,
        "rate": None,
        "layers": [],
        "masking": Masks(mask_rate=0.5),
    }
    assert fit("model", **grouped(fit, settings))[0] == settings
    with pytest.raises(TypeError, match="unknown option `mask_rat`. Did you mean `mask_rate`"):
        grouped(fit, {"mask_rat": 0.5})
