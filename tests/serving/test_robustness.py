"""Whatever strings come: an answer, the same one whoever the neighbours are, and never a crash."""

import json

import numpy as np
import pytest
import tensorflow as tf
from helpers.paths import ROOT
from helpers.served_models import SOME_KINDS

WORDS = ["good", "bad", "film", "[MASK]", "[SEP]", "##s", "é", "中", "\U0001f600", ".", "-", "\u0301", "\u200d", "\x00"]


def random_strings(count, seed):
    """bytes: of any kind, of Unicode of any kind, of the vocabulary's words, spaces, and sometimes nothing or much."""
    rng = np.random.default_rng(seed)
    strings = []
    for number in range(count):
        length = int(rng.integers(0, 40)) if number % 50 else int(rng.choice([0, 1, 5000]))
        kind = number % 3
        if kind == 0:
            strings.append(rng.bytes(length))
        elif kind == 1:
            points = rng.integers(0, 0x110000, length)
            strings.append("".join(map(chr, points)).encode("utf-8", "surrogatepass"))
        else:
            strings.append(" ".join(rng.choice(WORDS, length)).encode())
    return strings


def naughty_strings():
    """The Big List of Naughty Strings, where it lies beside the project."""
    path = ROOT.parent / "shared/data/tokenizer/blns.json"
    return [text.encode("utf-8", "surrogatepass") for text in json.loads(path.read_text())] if path.is_file() else []


def columns_of(strings, names):
    """One column of strings for each input, so that each row has different ones; choices are four a row."""
    columns = {}
    for shift, name in enumerate(names):
        rolled = strings[shift * 7 :] + strings[: shift * 7]
        columns[name] = np.array(rolled, dtype=object)
        if name == "choices":
            columns[name] = np.stack([np.roll(columns[name], k) for k in range(4)], axis=1)
    return columns


def answers_of(serve, columns, rows):
    answers = serve(**{name: tf.constant(column[rows].tolist(), tf.string) for name, column in columns.items()})
    return {name: value.numpy() for name, value in answers.items()}


def check(served, strings, batch=64, alone=60):
    serve = served.loaded["serving_default"]
    columns = columns_of(strings, list(served.columns))
    alone = set(np.random.default_rng(0).choice(len(strings), size=min(len(strings), alone), replace=False))
    for first in range(0, len(strings), batch):
        rows = np.arange(first, min(first + batch, len(strings)))
        together = answers_of(serve, columns, rows)
        for value in together.values():
            assert len(value) == len(rows)
            assert value.dtype.kind != "f" or np.isfinite(value).all()
        for row in set(rows) & alone:
            _assert_same(answers_of(serve, columns, [row]), together, row - first, strings[row])


def _assert_same(one, together, place, string):
    together = {name: value[place] for name, value in together.items()}
    for name, value in one.items():
        value, other = value[0], together[name]
        if np.ndim(value) == 1:  # a tagger's answers are as wide as the batch's longest text; the rest is fill
            other = other[: len(value)]
        if np.asarray(value).dtype.kind == "f":
            np.testing.assert_allclose(value, other, atol=1e-5, rtol=0, err_msg=f"{name} of {string!r:.80}")
        else:
            different = (np.asarray(value) != other) & ~_tied(name, together)
            assert not np.any(different), f"{name} of {string!r:.80}: alone {value}, among others {other}"


def _tied(name, answers):
    """Where rounding alone decides which of two candidates an answer names; their scores are compared all the same."""
    if name in ("choice", "label") and "probabilities" in answers:
        first, second = np.sort(answers["probabilities"])[:-3:-1]
        return first - second < 1e-6
    if name in ("answer", "start", "end", "n_best_answers") and "n_best_scores" in answers:
        count = answers["n_best_count"]
        apart = -np.diff(np.log(answers["n_best_scores"][:count]))  # the scores' differences, as softmax keeps these
        close = np.concatenate([[False], apart < 1e-5, [False]])
        tied = np.zeros(len(answers["n_best_answers"]), bool)
        tied[:count] = close[1:] | close[:-1]
        return tied if name == "n_best_answers" else tied[0]
    return np.False_


@pytest.mark.parametrize("served", SOME_KINDS, indirect=True)
def test_some_strings(served):
    check(served, [*random_strings(90, seed=1), *naughty_strings()[:200:8], b"", b"good " * 8_000], alone=20)


@pytest.mark.slow
def test_ten_thousand_strings(served):
    huge = [b"x" * 80_000, b"good " * 16_000]  # with their neighbours, five times over in choices: within the limits
    check(served, [*random_strings(10_000, seed=2), *naughty_strings(), *huge])
