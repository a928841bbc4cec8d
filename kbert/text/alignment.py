"""Maps byte offsets of normalised strings to code points of their source strings.

Shapes: B strings, c characters of all of them, u distinct characters, t pieces of all of them.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from kbert.text.normalizer import Normalizer, traced_once


def align_to_source(
    strings: tf.Tensor,
    normalizer: Normalizer,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
    source_lengths: Callable[[tf.Tensor], tf.Tensor],
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Converts byte offsets of normalised strings to code points of their source strings [B].

    Offsets are half-open: ragged int64 [B, None] in, ragged int32 out. Normalisation works on one
    character at a time (the final sigma depends on its neighbours, but does not change a length),
    so the length of each character's normal form tells where the bytes came from. Only the few
    distinct characters of the batch are normalised again. A span consists of whole characters with
    their stripped marks; deleted characters at its edges are not part of it. `source_lengths` maps
    code points int32 to the number of source characters that each stands for.
    """
    start, end = _traced(normalizer, source_lengths)(strings, starts, ends)
    return starts.with_values(start), ends.with_values(end)


@functools.cache
def _traced(normalizer, source_lengths):
    """`_align`, traced once for all equal normalizers."""
    spans = tf.RaggedTensorSpec([None, None], tf.int64)

    def align(strings, starts, ends):
        return _align(strings, normalizer, starts, ends, source_lengths)

    return traced_once(align, tf.TensorSpec([None], tf.string), spans, spans)


def _align(strings, normalizer, starts, ends, source_lengths):
    characters = tf.strings.unicode_decode(strings, "UTF-8")  # [B, None], [c] in all
    different, index = tf.unique(characters.values)  # [u], [c]
    singles = tf.strings.unicode_encode(different[:, tf.newaxis], "UTF-8")  # [u]
    size = tf.strings.length(normalizer(singles))  # [u], bytes
    is_mark = (size == 0) & (tf.strings.length(normalizer.clean(singles)) > 0)  # [u]

    byte_end = tf.cumsum(tf.cast(tf.gather(size, index), tf.int64))  # [c], of the whole batch's bytes
    row = starts.value_rowids()  # [t]
    row_first = tf.gather(characters.row_splits, row)  # [t], characters
    row_last = tf.gather(characters.row_splits, row + 1)
    shift = tf.gather(_from_zero(byte_end), row_first)  # [t], bytes before the row
    # The first character that ends after a byte holds that byte: those without bytes end where the one before ends.
    first = tf.searchsorted(byte_end, starts.values + shift, side="right", out_type=tf.int64)  # [t]
    last = tf.searchsorted(byte_end, ends.values - 1 + shift, side="right", out_type=tf.int64)  # [t]

    # Stripped marks belong to the character before them.
    kept = tf.where(tf.gather(size, index) > 0)[:, 0]
    following = tf.concat([kept, [tf.size(index, tf.int64)]], 0)
    following = tf.gather(following, tf.searchsorted(kept, last, side="right"))
    following = tf.minimum(following, row_last)  # [t]
    marks = tf.where(tf.gather(is_mark, index))[:, 0]
    last_mark = tf.gather(tf.concat([[-1], marks], 0), tf.searchsorted(marks, following, side="left"))
    last = tf.maximum(last, last_mark)

    offset = _from_zero(tf.cumsum(tf.gather(source_lengths(different), index)))  # [c + 1], of the whole batch's source
    row_offset = tf.gather(offset, row_first)
    start = tf.gather(offset, first) - row_offset
    end = tf.gather(offset, last + 1) - row_offset
    return start, end


def _from_zero(ends):
    return tf.concat([tf.zeros([1], ends.dtype), ends], 0)
