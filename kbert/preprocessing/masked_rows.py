"""Strings → masked batches, as `fit` of a masked language model takes them: tokenised and masked in graph.

Shapes: B batch, S sequence, P predictions, n texts that are tokenised at once, p rows of them, t tokens.
"""

from collections.abc import Callable

import tensorflow as tf

from kbert.keras_compat import with_known_length
from kbert.preprocessing.windows import sliding_windows
from kbert.pretraining.dataset import filled_batches, masked_rows, with_options
from kbert.pretraining.pairs import PairTable, example_keys, max_pair_tokens
from kbert.stateless_random import fold_in, permutation
from kbert.text.packing import truncated_lengths

_TEXTS_AT_ONCE = 1024
_TEXTS = 6  # keeps the order of texts independent of the seed's other uses
_graph = tf.autograph.experimental.do_not_convert  # nothing here is Python control flow over tensors


def texts_in_memory(columns, labels, weights, *, step: Callable[[], int], seed: int, shuffle: bool):
    """Chunks of texts: (step int64, text numbers int64 [n], columns, labels [n], weights [n]).

    `columns` are the texts, or the two of each pair. Labels are int32, 0 = IsNext, -1 = none.
    `step` returns the number of the step at which an epoch begins: the epoch's order and masks
    depend on it.
    """
    size = tf.size(labels, tf.int64)

    def chunks(epoch):
        order = tf.range(size)
        if shuffle:
            order = tf.cast(permutation(fold_in(seed, _TEXTS, epoch), size), tf.int64)
        numbers = tf.data.Dataset.from_tensor_slices(order).batch(_TEXTS_AT_ONCE)
        return numbers.map(
            _graph(
                lambda number: (
                    epoch,
                    number,
                    tuple(tf.gather(column, number) for column in columns),
                    tf.gather(labels, number),
                    tf.gather(weights, number),
                )
            )
        )

    return _steps(lambda: iter([step()])).flat_map(_graph(chunks))


def streamed_texts(dataset, *, step: Callable[[], int]):
    """The chunks of `texts_in_memory` from a dataset of (columns, labels, weights), in its own order."""

    def steps():
        first = step()
        while True:
            yield first

    chunks = dataset.unbatch().enumerate().batch(_TEXTS_AT_ONCE)
    chunks = tf.data.Dataset.zip(_steps(steps), chunks)
    return chunks.map(_graph(lambda epoch, chunk: (epoch, chunk[0], *chunk[1])))


def masked_batches(chunks, tokenizer, masking, *, seed, batch_size, sequence_length, next_sentence, is_counted):
    """The rows of chunks of texts, masked, in batches as `pretraining_dataset` gives them.

    Rows that fill up the last batch have weight 0. A text longer than a row becomes windows, which
    do not overlap. Of a pair the longer text is truncated. A text that fits has the masks of
    `kbert.pretraining.pretraining_dataset` for equal seed, epoch and document. A `batch_size` of
    None makes all rows one batch. With `is_counted` the dataset knows its length, for which all
    texts are tokenised once more.
    """
    pair = len(chunks.element_spec[2]) == 2
    max_tokens = max_pair_tokens(sequence_length, pair)

    def draw(epoch, numbers, columns, labels, weights):
        ids = [tokenizer.call(column) for column in columns]
        lengths = [tf.cast(segment.row_lengths(), tf.int32) for segment in ids]
        starts = [tf.cast(segment.row_starts(), tf.int32) for segment in ids]
        tokens = tf.concat([*(segment.values for segment in ids), [tokenizer.pad_id]], 0)  # never empty
        if pair:
            keys = example_keys(seed, epoch, numbers, 0)
            a_length, b_length = truncated_lengths(*lengths, max_tokens)
            table = PairTable(starts[0], a_length, tf.size(ids[0].values) + starts[1], b_length, labels, keys)
            row = tf.range(tf.size(labels))
        else:
            row, start, length = sliding_windows(lengths[0], max_tokens, max_tokens)
            is_text = length > 0
            row, start, length = (tf.boolean_mask(column, is_text) for column in (row, start, length))
            window = tf.cast(start // max_tokens, tf.int64)
            keys = example_keys(seed, epoch, tf.gather(numbers, row), window)
            zeros = tf.zeros_like(row)
            table = PairTable(tf.gather(starts[0], row) + start, length, zeros, zeros, tf.gather(labels, row), keys)
        return {"token_ids": tokens}, table, tf.range(tf.size(row) + 1), tf.gather(weights, row)

    drawn = chunks.map(_graph(draw), num_parallel_calls=2, deterministic=True)
    rows = masked_rows(
        drawn,
        masking,
        sequence_length=sequence_length,
        next_sentence=pair,
    )

    def weigh(inputs, targets, weights, row_weights):
        labels = {"mlm_logits": targets["mlm_logits"]}
        weights = {"mlm_logits": weights["mlm_logits"] * row_weights[:, tf.newaxis]}
        if next_sentence:
            label = targets["nsp_logits"] if pair else tf.fill(tf.shape(row_weights), -1)
            labels["nsp_logits"] = tf.maximum(label, 0)
            weights["nsp_logits"] = row_weights * tf.cast(label >= 0, tf.float32)
        return inputs, labels, weights

    rows = rows.map(_graph(weigh))
    if batch_size is None:
        return rows.rebatch(2**31)
    batches = with_options(filled_batches(rows, batch_size)).prefetch(tf.data.AUTOTUNE)
    if not is_counted:
        return batches
    number = drawn.reduce(tf.constant(0, tf.int64), _graph(lambda n, drawn: n + tf.size(drawn[2], tf.int64) - 1))
    return with_known_length(batches, -(-int(number) // batch_size))


def _steps(numbers):
    return tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))
