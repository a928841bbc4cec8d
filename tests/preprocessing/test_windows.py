"""Windows over long texts, against a transcription of the original's loops."""

import random

import numpy as np
import pytest
import tensorflow as tf

from kbert.preprocessing.windows import max_context, sliding_windows, window_tokens


def original_windows(length, limits, stride):
    """run_squad.py, convert_examples_to_features."""
    spans, start = [], 0
    while start < length:
        span = min(length - start, limits)
        spans.append((start, span))
        if start + span == length:
            break
        start += min(span, stride)
    return spans or [(0, 0)]


def original_is_max_context(spans, current, position):
    """run_squad.py, _check_is_max_context."""
    best_score, best_index = None, None
    for index, (start, length) in enumerate(spans):
        end = start + length - 1
        if not start <= position <= end:
            continue
        score = min(position - start, end - position) + 0.01 * length
        if best_score is None or score > best_score:
            best_score, best_index = score, index
    return current == best_index


def random_cases(seed, count):
    draw = random.Random(seed)
    for _ in range(count):
        size = draw.randint(1, 6)
        lengths = [draw.choice([0, 1, draw.randint(0, 40), draw.randint(0, 700)]) for _ in range(size)]
        limits = [draw.choice([1, draw.randint(1, 10), draw.randint(1, 340)]) for _ in range(size)]
        stride = draw.choice([1, draw.randint(1, 12), draw.randint(1, 200), 128])
        yield lengths, [max(r, 10) if n > 100 else r for r, n in zip(limits, lengths, strict=True)], stride


def everything(lengths, limits, stride, width):
    windows = sliding_windows(lengths, limits, stride)
    return *windows, max_context(*windows, width), window_tokens(*windows, width)


@pytest.mark.parametrize(
    "compute, cases", [("eager", 8), pytest.param("eager", 20, marks=pytest.mark.slow), ("graph", 4)]
)
def test_windows_and_contexts_are_the_originals(compute, cases):
    run = tf.function(everything) if compute == "graph" else everything
    for lengths, limits, stride in random_cases(compute, cases):
        arguments = (np.array(lengths, "int32"), np.array(limits, "int32"), stride, tf.constant(max(limits)))
        row, start, length, is_max, tokens = (x.numpy() for x in run(*arguments))
        expected = [(b, *span) for b in range(len(lengths)) for span in original_windows(lengths[b], limits[b], stride)]
        assert list(zip(row, start, length, strict=True)) == expected
        assert all(x.dtype == np.int32 for x in (row, start, length, tokens))
        first = np.cumsum([0, *lengths])
        counter = 0
        for b in range(len(lengths)):
            spans = original_windows(lengths[b], limits[b], stride)
            for number, (begin, size) in enumerate(spans):
                truth = [original_is_max_context(spans, number, begin + p) for p in range(size)]
                assert is_max[counter, :size].tolist() == truth
                assert not is_max[counter, size:].any()
                assert tokens[counter, :size].tolist() == list(range(first[b] + begin, first[b] + begin + size))
                assert (tokens[counter, size:] == -1).all()
                counter += 1


def test_near_ties_fall_as_in_the_original():
    # min + 0.01 * length of the last two windows differs by rounding alone for some of these lengths
    lengths = range(340, 700, 4)
    windows = sliding_windows(list(lengths), 330, 128)
    is_max_of_all, rows = max_context(*windows, 330).numpy(), windows[0].numpy()
    for row, length in enumerate(lengths):
        is_max = is_max_of_all[rows == row]
        spans = original_windows(length, 330, 128)
        assert len(is_max) == len(spans)
        for number, (start, size) in enumerate(spans):
            position = range(0, size, 7)
            truth = [original_is_max_context(spans, number, start + p) for p in position]
            assert is_max[number, list(position)].tolist() == truth


@pytest.mark.parametrize("lengths", [[1], [5000], [0], [0, 0], [0, 3, 0]])
def test_every_token_counts_in_exactly_one_window(lengths):
    windows = sliding_windows(lengths, 321, 128)
    is_max, tokens = max_context(*windows, 321).numpy(), window_tokens(*windows, 321).numpy()
    assert sorted(tokens[is_max].tolist()) == list(range(sum(lengths)))
    assert len(windows[0]) == sum(len(original_windows(n, 321, 128)) for n in lengths)


def test_no_texts_and_no_room():
    windows = sliding_windows(np.zeros([0], "int32"), 3, 2)
    assert max_context(*windows, 3).shape == window_tokens(*windows, 3).shape == (0, 3)
    row, start, length = (x.numpy().tolist() for x in sliding_windows([3], [-4], 2))
    assert (row, start, length) == ([0, 0, 0], [0, 1, 2], [1, 1, 1])
