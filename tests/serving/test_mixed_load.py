"""Normal and hostile requests at once: every normal one is answered as ever, and soon; every hostile one has an end."""

import concurrent.futures
import contextlib
import itertools
import time

import numpy as np
import pytest

from kbert.serving.client import ServingClient
from kbert.serving.rest_transport import ServingError

KINDS = ("single", "span", "tagging", "multiple_choice", "fill_mask", "encoder")
PATIENT = 300.0  # seconds: the stand-in loads a model when it is first asked for it
# Of processor time of this process, in which the server runs, so that other processes cannot lengthen it.
LATENCY = 60.0  # seconds during a normal request beside hostile ones; without limits one took two minutes
WORST = 120.0  # seconds during any request
NORMAL = {
    "single": {"text": ["The film is good.", ""]},
    "span": {"question": ["the capital?"], "context": ["a film of London"]},
    "tagging": {"text": ["the capital paris london"]},
    "multiple_choice": {"prompt": ["the film"], "choices": [["good", "bad film"]]},
    "fill_mask": {"text": ["a [MASK] film"]},
    "encoder": {"text": ["paris is good"]},
}
HOSTILE = {
    "huge": "good " * 1_000_000,
    "the most bytes": "good " * 200_000,
    "one word": "x" * 1_000_000,
    "a million marks": "e" + "\u0301" * 1_000_000,
    "marks out of order": "e" + "\u0301\u0316" * 100_000,
    "punctuation": "." * 500_000,
    "masks": "[MASK]" * 100_000,
    "NULs": "\0" * 500_000,
    "invalid UTF-8": b"\xff\xc3\xe4" * 100_000,
    "empty": "",
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 20_000,
    "CJK": "中" * 100_000,
}


def hostile_requests():
    """(what, kind, columns): each text in each column of text, very many rows, very many choices."""
    for what, text in HOSTILE.items():
        for kind in KINDS:
            columns = {name: values[:1] for name, values in NORMAL[kind].items()}
            last = list(columns)[-1]
            yield what, kind, columns | {last: [[text, "a"]] if last == "choices" else [text]}
    for kind in KINDS:
        yield "many rows", kind, {name: values[:1] * 50_000 for name, values in NORMAL[kind].items()}
    yield "many choices", "multiple_choice", {"prompt": ["a"], "choices": [["b"] * 50_000]}
    yield "no choices", "multiple_choice", {"prompt": [""], "choices": [[]]}
    yield "many prompts", "multiple_choice", {"prompt": [""] * 50_000, "choices": [[""]] * 50_000}
    yield "a long text among many", "tagging", {"text": ["a " * 40_000] + [""] * 4_000}


def ask_hostile(url, what, kind, columns):
    """The seconds until an answer or a refusal; anything else is an error of the test."""
    start = time.process_time()
    try:
        ServingClient(url, kind, timeout=PATIENT, tries=1).predict(columns)
    except ServingError as error:
        assert "A request may hold at most" in str(error), f"{what}: {error}"
    return time.process_time() - start, f"{what} to {kind}"


def ask_normal(url, expected, stop):
    """The longest latency of normal requests, one after the other until `stop` is done."""
    slowest, asked = 0.0, 0
    for kind in itertools.cycle(KINDS):
        if asked >= len(KINDS) and stop():
            return slowest, asked
        start = time.process_time()
        found = ServingClient(url, kind, timeout=PATIENT, tries=1).predict(NORMAL[kind])
        slowest, asked = max(slowest, time.process_time() - start), asked + 1
        assert_same(found, expected[kind])


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        for value, other in zip(found[name], values, strict=True):
            if np.asarray(other).dtype.kind == "f":
                np.testing.assert_allclose(value, other, atol=1e-5, rtol=0)
            else:
                assert value == other


def run(server, requests, hostile_threads):
    expected = {kind: ServingClient(server.rest, kind, timeout=PATIENT).predict(NORMAL[kind]) for kind in KINDS}
    with contextlib.ExitStack() as stack:
        hostile = stack.enter_context(concurrent.futures.ThreadPoolExecutor(hostile_threads))
        normal = stack.enter_context(concurrent.futures.ThreadPoolExecutor(2))
        attacks = [hostile.submit(ask_hostile, server.rest, *one) for one in requests]
        clients = [
            normal.submit(ask_normal, server.rest, expected, lambda: all(one.done() for one in attacks))
            for _ in range(2)
        ]
        seconds, what = max(one.result() for one in attacks)
        latency = max(one.result()[0] for one in clients)
        print(f"{len(attacks)} hostile requests, at most {seconds:.1f} s ({what}); normal ones at most {latency:.1f} s")
    assert seconds < WORST, what
    assert latency < LATENCY


def test_hostile_requests_beside_normal_ones(server):
    """Some of them; all in the slow test below."""
    every = list(hostile_requests())
    texts = every[: -4 - len(KINDS)]
    some = [texts[len(KINDS) * i + i % len(KINDS)] for i in range(len(HOSTILE))]
    run(server, (some + every[-4:])[::4], hostile_threads=1)


@pytest.mark.slow
def test_many_hostile_requests_beside_normal_ones(server):
    run(server, list(hostile_requests()), hostile_threads=2)
