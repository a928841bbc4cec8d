"""The batches of fine-tuning: order, epochs, taking up a run, grouping by length."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from kbert.preprocessing.buckets import window_size
from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.training_data import example_rows, labels_by_output, real_tokens, token_counts, training_dataset
from kbert.training.loop import training_steps

N, BATCH = 11, 3
EXAMPLES = LabelledText([f"é{n}" for n in range(N)], np.arange(N, dtype="int32"))
PAIRS = LabelledText(EXAMPLES.texts, EXAMPLES.labels + np.float32(0.5), [f"pair {n}" for n in range(N)])


def _rows(batches, start_step=0, seed=7, examples=EXAMPLES):
    rows = example_rows(examples, dict)
    data = training_dataset(rows, padding="full", batch_size=BATCH, seed=seed, start_step=start_step)
    return [labels["logits"].numpy().tolist() for _, labels in data.take(batches)]


def test_every_epoch_has_every_example_once_and_another_order():
    rows = list(itertools.chain.from_iterable(_rows(N)))  # N batches of 3 are 3 epochs of N
    epochs = [rows[i : i + N] for i in range(0, len(rows), N)]
    assert len(epochs) == BATCH
    assert all(sorted(epoch) == list(range(N)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == BATCH


def test_the_order_is_a_function_of_the_seed():
    assert _rows(5) == _rows(5)
    assert _rows(5, seed=8) != _rows(5)


@pytest.mark.parametrize("start", [0, 1, 3, 4, 11, 50])
def test_a_run_taken_up_sees_what_it_would_have_seen(start):
    assert _rows(6, start_step=start) == _rows(start + 6)[start:]


def test_labels_stay_with_their_texts():
    for inputs, labels in training_dataset(example_rows(EXAMPLES, dict), padding="full", batch_size=BATCH).take(8):
        assert [t.decode() for t in inputs["text"].numpy()] == [f"é{n}" for n in labels["logits"].numpy()]
        assert list(inputs) == ["text"]
    for inputs, labels in training_dataset(example_rows(PAIRS, dict), padding="full", batch_size=BATCH).take(8):
        assert labels["score"].dtype == "float32"
        n = (labels["score"].numpy() - 0.5).astype(int)
        assert [t.decode() for t in inputs["text_pair"].numpy()] == [f"pair {i}" for i in n]


def test_batches_are_full_and_static():
    data = training_dataset(example_rows(EXAMPLES, dict), padding="full", batch_size=BATCH)
    assert data.element_spec[1]["logits"].shape == (BATCH,)
    assert {len(batch) for batch in _rows(9)} == {BATCH}


def test_fewer_examples_than_a_batch():
    rows = _rows(4, examples=EXAMPLES.take([0, 1]))
    assert sorted(itertools.chain.from_iterable(rows)) == [0] * 6 + [1] * 6


def test_steps_are_those_of_the_original():
    assert training_steps(67349, 32, 3) == 6313  # int(67349 / 32 * 3)
    assert training_steps(3668, 32, 3.0) == 343
    assert training_steps(10, 32, 3) == 1  # int gives 0, which is no training


def _lengths_as_mask(inputs):
    lengths = tf.strings.length(inputs["text"], "UTF8_CHAR")
    return {"padding_mask": tf.sequence_mask(lengths, 90)}


MANY = LabelledText(["x" * (1 + 37 * n % 90) for n in range(90)], np.arange(90, dtype="int32"))
WINDOW = window_size(len(MANY), BATCH)


def _grouped(batches, start_step=0, seed=7):
    rows = example_rows(MANY, _lengths_as_mask)
    data = training_dataset(rows, batch_size=BATCH, seed=seed, start_step=start_step, group_by_length=True)
    return [labels["logits"].numpy().tolist() for _, labels in data.take(batches)]


def test_grouping_by_length_keeps_the_rows_of_a_window_and_can_be_taken_up():
    assert WINDOW == 7  # a quarter of the 30 batches of an epoch
    plain, grouped = _rows(2 * WINDOW, examples=MANY), _grouped(2 * WINDOW + 4)
    for first in (0, WINDOW):
        window, dealt = plain[first : first + WINDOW], grouped[first : first + WINDOW]
        by_length = sorted(itertools.chain(*window), key=lambda n: len(MANY.texts[n]))
        assert sorted(sorted(batch, key=by_length.index) for batch in dealt) == sorted(
            by_length[i : i + BATCH] for i in range(0, len(by_length), BATCH)
        )
        lengths = [len(MANY.texts[batch[0]]) for batch in dealt]
        assert lengths != sorted(lengths)  # the batches are shuffled
    for start in (1, WINDOW, WINDOW + 5):
        assert _grouped(6, start) == grouped[start : start + 6]
    assert _grouped(5, seed=8) != grouped[:5]


def test_counts_are_of_tokens_and_of_the_longest_choice():
    assert token_counts(MANY, _lengths_as_mask).tolist() == [len(text) for text in MANY.texts]
    assert token_counts(MANY, _lengths_as_mask).dtype == "int32"

    def choices(inputs):
        single = _lengths_as_mask(inputs)["padding_mask"]
        return {"padding_mask": tf.stack([single & (tf.range(90) < 5), single], axis=1)}

    assert token_counts(MANY.take([5, 3]), choices).tolist() == [len(MANY.texts[5]), len(MANY.texts[3])]


def test_real_tokens_are_those_that_are_not_padding():
    assert real_tokens(EXAMPLES, _lengths_as_mask) == pytest.approx(np.mean([len(text) for text in EXAMPLES.texts]))
    assert real_tokens(EXAMPLES, _lengths_as_mask, sample=2) == 2.5  # the first and the last


def test_a_label_outside_the_range_is_an_error():
    assert labels_by_output(EXAMPLES, N)["logits"].tolist() == list(range(N))
    with pytest.raises(ValueError, match=rf"must be in \[0, {N - 1}\). Received: \[{N - 1}\]"):
        labels_by_output(EXAMPLES, N - 1)
