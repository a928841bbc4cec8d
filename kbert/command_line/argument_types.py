"""Types of a program's arguments, for `argparse`: each checks a text and says what it expected."""

import argparse
import contextlib
import math
import pathlib


def _checked(name, convert, is_valid, expected):
    def check(text):
        with contextlib.suppress(ValueError):
            if is_valid(value := convert(text)):
                return value
        raise argparse.ArgumentTypeError(f"expected {expected}. Received: {text}")

    check.__name__ = name
    check.__doc__ = f"{expected[0].upper()}{expected[1:]}."
    return check


positive_int = _checked("positive_int", int, lambda value: value >= 1, "a whole number of at least 1")
positive_float = _checked("positive_float", float, lambda value: 0 < value < math.inf, "a number above 0")
rate = _checked("rate", float, lambda value: 0 <= value < 1, "a number in [0, 1)")
share = _checked("share", float, lambda value: 0 <= value <= 1, "a number in [0, 1]")
existing_directory = _checked("existing_directory", pathlib.Path, pathlib.Path.is_dir, "a directory that exists")
existing_file = _checked("existing_file", pathlib.Path, pathlib.Path.is_file, "a file that exists")


def epoch_or_int(text: str) -> int | str:
    """The word epoch, or a whole number of at least 1."""
    return text if text == "epoch" else positive_int(text)


_number = _checked("_number", float, math.isfinite, "a number, or off")


def number_or_off(text: str) -> float | str:
    """A finite number, or the word off."""
    return text if text == "off" else _number(text)


def stddev_or_scaled(text: str) -> float | str:
    """A number above 0, or the word scaled."""
    return text if text == "scaled" else positive_float(text)


def model_source(text: str) -> pathlib.Path | str:
    """A model as `kbert.load_pretrained` takes it: its path, or a name on the Hugging Face hub."""
    from kbert.weights.source import local_source

    try:
        path = local_source(text)
    except FileNotFoundError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text if path is None else path


def named_column(text: str) -> tuple[str, int]:
    """NAME=NUMBER, a column of a file of words."""
    name, equals, number = text.rpartition("=")
    if not name or not equals or not number.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError(f"expected NAME=NUMBER, such as pos=1. Received: {text}")
    return name, int(number)


def steps_to_profile(text: str) -> tuple[int, int]:
    """The first and the last step, from one number or from two with a colon between them."""
    from kbert.inspection.board.profiler import profiled_steps

    try:
        return profiled_steps(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


class ClassWeight(argparse.Action):
    """The word balanced, or different LABEL=X, as `kbert.finetune` takes `class_weight`: a string or a dict."""

    def __call__(self, parser, namespace, values, option_string=None):
        pairs = [value.rpartition("=") for value in values]
        factors = {}
        with contextlib.suppress(ValueError):
            factors = {label: float(factor) for label, _, factor in pairs if label and 0 <= float(factor) < math.inf}
        if values != ["balanced"] and len(factors) < len(values):
            expected = "expected balanced, or different LABEL=X with numbers of at least 0"
            raise argparse.ArgumentError(self, f"{expected}. Received: {' '.join(values)}")
        setattr(namespace, self.dest, factors or "balanced")


def rates(text: str) -> list[float]:
    """Numbers above 0 with commas between them, all different."""
    values = [positive_float(part) for part in text.split(",")]
    if len(set(values)) < len(values):
        raise argparse.ArgumentTypeError(f"expected different learning rates. Received: {text}")
    return values
