"""Sentences divided into spans of one length, to be masked as a whole."""

import tensorflow as tf


def aligned_spans(length):
    """A function for `pretraining_dataset(entity_ids=…)`: every `length` tokens of a sentence are one span.

    A stand-in for entities where nothing marks them: what is masked is as long as they are, and next to it stand
    tokens that are not. The last span of a sentence may be shorter.

    Returns:
        Function: ragged token ids of sentences [n, None] → ids of spans of the same shape, counted from 1.

    Source: Joshi et al. 2019 (SpanBERT), section 3.1, whose spans have random borders and a mean length of 3.8.

    Example::

        aligned_spans(2)(tf.ragged.constant([[7, 8, 9], [5]]))  # [[1, 1, 2], [3]]
    """
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise ValueError(f"aligned_spans: `length` must be an integer of at least 1. Received: {length!r}")

    def span_ids(sentences):
        place = tf.ragged.range(sentences.row_lengths()).flat_values
        return sentences.with_flat_values(tf.cumsum(tf.cast(place % length == 0, tf.int32)))

    return span_ids
