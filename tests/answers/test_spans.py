"""Span answers against a transcription of run_squad.py's write_predictions, in Python, with the exact source text."""

import collections
import math
import random

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import tiny_tokenizer
from helpers.wrong_values import wrong_values

from kbert.answers.spans import NO_CANDIDATE, SpanAnswers
from kbert.preprocessing.window_preprocessors import SpanPreprocessor
from kbert.tasks.span.evaluation import span_positions

Candidate = collections.namedtuple("Candidate", "score text start end")
PIECES = "Paris|paris|is|the |capital|\U0001f600|中|中文| |films|É|e\u0301|.|!|\n".split("|")


def original(batch, start_logits, end_logits, row, n_best, max_length, threshold):
    """write_predictions of one question; (best candidate or None, null score, n-best as (text, probability))."""
    context = batch["context"][row].decode()
    prelim, null_score = [], math.inf
    for w in np.flatnonzero(batch["window_row"] == row):
        starts, ends = (
            sorted(np.flatnonzero(batch["padding_mask"][w]), key=lambda i: logits[w][i], reverse=True)[:n_best]
            for logits in (start_logits.astype(float), end_logits.astype(float))
        )
        null_score = min(null_score, float(start_logits[w][0]) + float(end_logits[w][0]))
        for s in starts:
            for e in ends:
                if batch["window_token"][w][s] < 0 or batch["window_token"][w][e] < 0:
                    continue
                if not batch["is_max_context"][w][s] or e < s or e - s + 1 > max_length:
                    continue
                begin, end = batch["token_starts"][w][s], batch["token_ends"][w][e]
                prelim.append(
                    Candidate(float(start_logits[w][s]) + float(end_logits[w][e]), context[begin:end], begin, end)
                )
    best = max(prelim, key=lambda c: c.score, default=None)
    if threshold is not None:
        prelim.append(Candidate(null_score, "", -1, -1))
    n_best_list, seen = [], set()
    for candidate in sorted(prelim, key=lambda c: c.score, reverse=True):
        if len(n_best_list) >= n_best:
            break
        if candidate.text not in seen:
            seen.add(candidate.text)
            n_best_list.append(candidate)
    if threshold is not None and "" not in seen:
        n_best_list.append(Candidate(null_score, "", -1, -1))
    peak = n_best_list[0].score if n_best_list else 0
    fractions = [math.exp(c.score - peak) for c in n_best_list]
    return (
        best,
        null_score,
        [(c.text, fraction / sum(fractions)) for c, fraction in zip(n_best_list, fractions, strict=True)],
    )


def make_batch(seed, length=17, stride=4, rows=5):
    draw = random.Random(seed)
    contexts = ["".join(draw.choices(PIECES, k=draw.choice([0, 1, 5, 30, 80]))) for _ in range(rows)]
    questions = [draw.choice(["", "Paris?", "the capital of films " * 4]) for _ in range(rows)]
    return SpanPreprocessor(tiny_tokenizer(), length, stride, 6)({"question": questions, "context": contexts})


def check(batch, start_logits, end_logits, layer):
    answers = {k: v.numpy() for k, v in layer({"start_logits": start_logits, "end_logits": end_logits}, batch).items()}
    batch = {name: value.numpy() for name, value in batch.items()}
    for row in range(len(batch["context"])):
        best, null_score, n_best = original(
            batch, start_logits, end_logits, row, layer.n_best, layer.max_answer_length, layer.null_threshold
        )
        assert answers["null_score"][row] == np.float32(null_score)
        assert answers["score"][row] == np.float32(best.score if best else NO_CANDIDATE)
        threshold = layer.null_threshold
        if best is None or (
            threshold is not None and np.float32(null_score) - np.float32(best.score) > np.float32(threshold)
        ):
            assert (answers["answer"][row], answers["start"][row], answers["end"][row]) == (b"", -1, -1)
        else:
            assert answers["answer"][row].decode() == best.text
            assert (answers["start"][row], answers["end"][row]) == (best.start, best.end)
        assert (
            answers["n_best_answers"].shape == answers["n_best_scores"].shape == (row_count(batch), layer.list_length)
        )
        assert answers["n_best_count"][row] == len(n_best)
        filled = n_best + [("", 0.0)] * (layer.list_length - len(n_best))
        assert [a.decode() for a in answers["n_best_answers"][row]] == [text for text, _ in filled]
        np.testing.assert_allclose(answers["n_best_scores"][row], [p for _, p in filled], atol=1e-6)
    return answers


def row_count(batch):
    return len(batch["context"])


@pytest.mark.parametrize(
    "n_best, max_length, threshold, seeds",
    [
        (20, 30, None, 5),
        (4, 3, 0.0, 12),
        pytest.param(20, 30, None, 12, marks=pytest.mark.slow),
        pytest.param(1, 1, -1.5, 12, marks=pytest.mark.slow),
        pytest.param(6, 2, 2.0, 12, marks=pytest.mark.slow),
    ],
)
def test_answers_are_the_originals(n_best, max_length, threshold, seeds):
    layer = SpanAnswers(n_best, max_length, threshold)
    nulls = 0
    for seed in range(seeds):
        batch = make_batch(seed)
        rng = np.random.default_rng(seed)
        shape = batch["token_ids"].shape
        start_logits, end_logits = (rng.normal(0, 2, shape).astype("float32") for _ in range(2))
        if seed % 3 == 0:  # many ties
            start_logits, end_logits = np.round(start_logits), np.round(end_logits)
        nulls += sum(check(batch, start_logits, end_logits, layer)["start"] < 0)
    assert nulls  # empty contexts at least


def traced_answers(batch):
    """Function of start and end logits: sooner than op by op where it is called a hundred times."""
    layer = SpanAnswers()
    return tf.function(lambda start, end: layer({"start_logits": start, "end_logits": end}, batch))


def test_the_answer_is_the_exact_substring_of_multilingual_text():
    context = "Ein café \U0001f468‍\U0001f469‍\U0001f467 in 北京市; e\u0301te\u0301, ﬁn. Straße ١٢ हिन्दी 한국어"
    for length, stride in [(64, 16), (9, 2)]:
        batch = SpanPreprocessor(tiny_tokenizer(), length, stride)({"question": ["is"], "context": [context]})
        arrays = {name: value.numpy() for name, value in batch.items()}
        answer, seen = traced_answers(batch), 0
        for w, s in zip(*np.nonzero(arrays["is_max_context"]), strict=True):
            for e in range(s, min(s + 4, length)):
                if arrays["window_token"][w, e] < 0:
                    continue
                logits = np.zeros((2, *arrays["token_ids"].shape), "float32")
                logits[0, w, s] = logits[1, w, e] = 9
                answers = answer(*logits)
                start, end = int(answers["start"][0]), int(answers["end"][0])
                assert (start, end) == (arrays["token_starts"][w, s], arrays["token_ends"][w, e])
                assert answers["answer"].numpy()[0].decode() == context[start:end] != ""
                seen += 1
        assert seen > 40


def test_what_is_taught_is_answered_in_texts_of_1_and_of_5000_tokens():
    tokenizer, draw = tiny_tokenizer(), random.Random(11)
    long = " ".join(draw.choices([piece for piece in PIECES if piece.strip()], k=4500))
    contexts = [long] * 12 + ["Paris", "中", " \U0001f600\n"]
    ids, token_starts, token_ends = (x.to_list() for x in tokenizer.tokenize_with_offsets(contexts))
    assert len(ids[0]) > 5000 and len(ids[-1]) == len(ids[-2]) == len(ids[-3]) == 1
    room = 384 - 3 - len(tokenizer(["the capital"])[0])
    first = [0, room - 3, room - 1, room, 128 - 2, 128 + room - 5, len(ids[0]) - 9]  # across borders of windows
    first += [draw.randrange(5000 - 30) for _ in range(5)] + [0, 0, 0]
    last = [min(i + draw.randint(8, 29), len(row) - 1) for i, row in zip(first, ids, strict=True)]
    starts = [token_starts[row][i] for row, i in enumerate(first)]
    ends = [token_ends[row][i] for row, i in enumerate(last)]
    batch = SpanPreprocessor(tokenizer)({"question": ["the capital"] * len(contexts), "context": contexts})
    taught = span_positions(batch, starts, ends)
    logits = [9 * tf.one_hot(place, 384) * tf.cast(place > 0, tf.float32)[:, tf.newaxis] for place in taught]
    answers = SpanAnswers()(dict(zip(("start_logits", "end_logits"), logits, strict=True)), batch)
    assert answers["start"].numpy().tolist() == starts and answers["end"].numpy().tolist() == ends
    expected = [context[start:end] for context, start, end in zip(contexts, starts, ends, strict=True)]
    assert [answer.decode() for answer in answers["answer"].numpy()] == expected


def test_padding_never_takes_a_place():
    batch = make_batch(3)
    shape = batch["token_ids"].shape
    rng = np.random.default_rng(0)
    start_logits, end_logits = (rng.normal(-9, 2, shape).astype("float32") for _ in range(2))
    layer = SpanAnswers(3, 5, 0.0)
    expected = layer({"start_logits": start_logits, "end_logits": end_logits}, batch)
    padding = ~batch["padding_mask"].numpy()
    assert padding.any()
    start_logits[padding], end_logits[padding] = 50, 60
    received = layer({"start_logits": start_logits, "end_logits": end_logits}, batch)
    for name in expected:
        np.testing.assert_array_equal(expected[name], received[name])


def test_nothing_to_answer_is_no_crash():
    preprocessor = SpanPreprocessor(tiny_tokenizer(), 9)
    batch = preprocessor({"question": ["", "Paris?"], "context": ["", "\n"]})
    zeros = tf.zeros([2, 9])
    for threshold in (None, 0.0):
        answers = SpanAnswers(3, null_threshold=threshold)({"start_logits": zeros, "end_logits": zeros}, batch)
        assert answers["answer"].numpy().tolist() == [b"", b""] and answers["start"].numpy().tolist() == [-1, -1]
        assert answers["score"].numpy().tolist() == [NO_CANDIDATE] * 2
        assert answers["n_best_scores"].numpy()[:, 0].tolist() == [0.0 if threshold is None else 1.0] * 2
    empty = preprocessor({"question": tf.constant([], tf.string), "context": tf.constant([], tf.string)})
    nothing = tf.zeros([0, 9])
    assert SpanAnswers()({"start_logits": nothing, "end_logits": nothing}, empty)["n_best_answers"].shape == (0, 20)


def test_half_precision_logits():
    batch = make_batch(1)
    logits = np.random.default_rng(0).normal(0, 2, batch["token_ids"].shape).astype("float16")
    check(batch, tf.constant(logits).numpy(), logits[:, ::-1].copy(), SpanAnswers(5, 4, 0.0))


def test_bad_settings():
    wrong_values(
        SpanAnswers,
        ("n_best", 0, "a positive integer. Received: 0"),
        ("max_answer_length", 2.0, "a positive integer. Received: 2.0"),
        ("null_threshold", float("nan"), "finite. Received: nan"),
    )
