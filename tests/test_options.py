"""Options: values are checked and converted by annotations, and described by docstrings."""

import dataclasses
import functools
import pathlib
from typing import Annotated, Literal

import numpy as np
import pytest
from helpers.wrong_values import wrong_values

from kbert.aliases import ExampleData, ModelSource, PathLike
from kbert.options import (
    NOT_RECORDED,
    Count,
    Machine,
    NonzeroFraction,
    Optimization,
    Options,
    Positive,
    checked,
    grouped,
    option_help,
    record,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masking(Options):
    """Masks.

    Args:
        mask_rate: the fraction of tokens.
    """

    mask_rate: NonzeroFraction = 0.15
    phases: tuple[tuple[Count, float], ...] = ()
    path: PathLike | None = None
    log_every: Annotated[Count | None, NOT_RECORDED] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordMasking(Masking):
    """Masks words.

    Args:
        phases: parts of the run.
    """


@checked
def train(
    source,
    *,
    steps: Count = 3,
    keep: Literal["best", "last"] = "best",
    evaluate_every: Literal["epoch"] | Count | None = "epoch",
    learning_rate: Positive = 1e-4,
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
        The settings and the arguments.
    """
    return record(train, locals()), locals()


@checked
def score(
    source: ModelSource, examples: ExampleData = (), *, batch_size: Count = 32, masking: Masking = Masking()
) -> dict[str, object]:
    """Scores."""
    return {"source": source, "examples": examples, "batch_size": batch_size}


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
        ("learning_rate", 10**400, r"a number in \(0, inf\). Received: "),
        ("learning_rate", float("nan"), r"a number in \(0, inf\). Received: "),
        ("learning_rate", lambda step: step, r"a number in \(0, inf\). Received: "),
        ("names", "one", "a list, each item a string or None.*Received: "),
        ("names", [1], "a list, each item a string or None.*Received: "),
        ("masking", 0.15, "a Masking.*Received: "),
        ("is_dry", "no", "True or False.*Received: "),
        ("output", 3, "a path or None.*Received: "),
        owner="^train: ",
    )


def test_a_wrong_field_is_an_error_that_names_the_group():
    wrong = (("mask_rate", 0), ("mask_rate", 1.5), ("phases", ((0, 0.5),)), ("phases", [1]), ("path", 1))
    wrong_values(Masking, *((field, value, "") for field, value in wrong), owner="^Masking: ")


def test_values_are_converted():
    masking = Masking(phases=[[128, 1]], path=pathlib.Path("a/b"), log_every=3)
    numbers = {"steps": np.int64(5), "learning_rate": np.float32(0.5), "is_dry": np.bool_(True)}
    settings, arguments = train("model", **numbers, masking=masking, output="runs/x")
    assert [type(arguments[name]) for name in ("steps", "learning_rate", "is_dry")] == [int, float, bool]
    assert masking == Masking(phases=((128, 1.0),), path=pathlib.Path("a/b"), log_every=3)
    assert settings == {
        "steps": 5,
        "keep": "best",
        "evaluate_every": "epoch",
        "learning_rate": 0.5,
        "names": None,
        "mask_rate": 0.15,
        "phases": [[128, 1.0]],
        "path": "a/b",
        "is_dry": True,
    }


def test_an_alias_takes_what_its_classes_in_quotes_stand_for():
    model, rows = object(), {"text": ["a"]}
    scored = score(model, rows)
    assert scored["source"] is model and scored["examples"] is rows
    assert score("runs/x", "a.csv")["examples"] == "a.csv"


def test_unknown_and_missing_arguments():
    wrong = {
        "batch_sise": "score: unknown argument `batch_sise`. Did you mean `batch_size`",
        "mask_rate": r"score: unknown argument `mask_rate`. It is a field of `masking`: masking=Masking\(mask_rate=…\)",
        "zzz": "score: unknown argument `zzz`. Known: source, examples, batch_size, masking",
    }
    for name, message in wrong.items():
        with pytest.raises(TypeError, match=message):
            score("model", **{name: 3})
    with pytest.raises(TypeError, match="score: missing a required argument: 'source'"):
        score()
    with pytest.raises(TypeError, match="score: multiple values for argument 'source'"):
        score("model", source="other")
    assert train.__doc__.startswith("Trains.")


def test_the_help_of_an_option_is_its_sentence_in_the_docstring():
    both = "how long, and which weights: those of the last step."
    assert option_help(train) == {"source": "what is trained: a model.", "steps": both, "keep": both}
    assert option_help(WordMasking) == {"mask_rate": "the fraction of tokens.", "phases": "parts of the run."}
    for group in (Machine, Optimization):
        assert option_help(group).keys() == {field.name for field in dataclasses.fields(group)}


def test_recorded_settings_are_the_arguments_of_the_same_call():
    settings, _ = train("model", steps=5, masking=Masking(mask_rate=0.5))
    arguments = grouped(train, settings)
    assert (arguments["steps"], arguments["masking"]) == (5, Masking(mask_rate=0.5))
    assert train("model", **arguments)[0] == settings
