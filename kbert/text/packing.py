"""Token ids of one or two texts → ``[CLS] A [SEP]`` or ``[CLS] A [SEP] B [SEP]`` of a static length.

Shapes: B batch, S sequence, t tokens of a flat list.
"""

from collections.abc import Sequence

import tensorflow as tf


def pack(
    segments: Sequence[tf.RaggedTensor], sequence_length: int, *, cls_id: int, sep_id: int, pad_id: int
) -> dict[str, tf.Tensor]:
    """Packs one or two ragged batches of token ids into the batch that every kbert model takes.

    Texts that do not fit are truncated as in the original's fine-tuning: one token at a time from
    the *end* of the longer text, of the second if both are equally long. (Pre-training truncates
    differently: `kbert.pretraining.pairs`.) Uses only core ops, which every TF Serving has.

    Args:
        segments: list of one or two ``tf.RaggedTensor`` int32 [B, None], without special tokens.
        sequence_length: S, int. At least 3 for one text, 5 for two.

    Returns:
        dict of ``token_ids`` int32 [B, S], ``segment_ids`` int32 [B, S] (0 for [CLS], A and the
        first [SEP], 1 for B and the last [SEP], 0 for padding) and ``padding_mask`` bool [B, S]
        (True = a real token).

    Raises:
        ValueError: not one or two segments, or a length too short for them.

    Source: Devlin et al. 2018, section 3 (input representation); google-research/bert
    run_classifier.py, ``_truncate_seq_pair``.

    Example::

        a = tf.ragged.constant([[7, 8, 9], [7]], dtype=tf.int32)
        pack([a], 5, cls_id=2, sep_id=3, pad_id=0)["token_ids"]  # [[2, 7, 8, 9, 3], [2, 7, 3, 0, 0]]
    """
    if len(segments) not in (1, 2):
        raise ValueError(f"pack: `segments` must hold one or two ragged tensors. Received: {len(segments)} of them")
    lengths = [tf.cast(segment.row_lengths(), tf.int32) for segment in segments]  # 1 or 2 of [B]
    budget = content_length(sequence_length, len(segments))
    lengths = [tf.minimum(lengths[0], budget)] if len(segments) == 1 else truncated_lengths(*lengths, budget)
    # One leading filler keeps gathers valid when there are no tokens.
    values = [tf.fill([1], tf.cast(pad_id, tf.int32))]
    ranges = []
    first = 1
    for segment, length in zip(segments, lengths, strict=True):
        ranges += [first + tf.cast(segment.row_starts(), tf.int32), length]
        values.append(tf.cast(segment.values, tf.int32))
        first += tf.size(values[-1])
    return pack_ranges(
        tf.concat(values, axis=0), *ranges, sequence_length=sequence_length, cls_id=cls_id, sep_id=sep_id, pad_id=pad_id
    )


def pack_ranges(
    values: tf.Tensor,
    a_start: tf.Tensor,
    a_length: tf.Tensor,
    b_start: tf.Tensor | None = None,
    b_length: tf.Tensor | None = None,
    *,
    sequence_length: int | tf.Tensor,
    cls_id: int,
    sep_id: int,
    pad_id: int,
) -> dict[str, tf.Tensor]:
    """`pack` for texts given as ranges of one flat list of tokens, already truncated.

    Args:
        values: integer tensor [t], t > 0: the tokens.
        a_start, a_length: integer tensors [B]: the first text is ``values[a_start : a_start + a_length]``.
        b_start, b_length: the second text, or None for single texts.
    """
    paired = b_start is not None
    index_type = a_start.dtype
    position = tf.range(sequence_length, dtype=index_type)[tf.newaxis, :]  # [1, S]
    a_start, a_length = a_start[:, tf.newaxis], tf.cast(a_length, index_type)[:, tf.newaxis]  # [B, 1]
    first_sep = a_length + 1
    index = a_start + position - 1  # [B, S]
    last_sep = first_sep
    if paired:
        b_start = tf.cast(b_start, index_type)[:, tf.newaxis]
        b_length = tf.cast(b_length, index_type)[:, tf.newaxis]
        index = tf.where(position <= first_sep, index, b_start + position - first_sep - 1)
        last_sep = first_sep + b_length + 1
    padding_mask = position <= last_sep  # [B, S]
    is_sep = (position == first_sep) | (position == last_sep)
    is_text = padding_mask & ~is_sep & (position > 0)
    token_ids = tf.cast(tf.gather(values, tf.where(is_text, index, tf.zeros_like(index))), tf.int32)
    special = tf.where(position == 0, cls_id, tf.where(is_sep, sep_id, pad_id))  # [B, S]
    token_ids = tf.where(is_text, token_ids, special)
    segment_ids = (
        tf.cast(padding_mask & (position > first_sep), tf.int32) if paired else tf.zeros_like(token_ids)  # [B, S]
    )
    return {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}


def content_length(sequence_length: int, num_segments: int) -> int:
    """How many tokens of text fit beside [CLS] and one [SEP] for each segment."""
    budget = sequence_length - 1 - num_segments
    if budget < num_segments:
        raise ValueError(
            f"pack: `sequence_length` must be at least {1 + 2 * num_segments} for {num_segments} text(s): [CLS], one "
            f"[SEP] a text and a token each. Received: sequence_length={sequence_length}"
        )
    return budget


def truncated_lengths(a_length: tf.Tensor, b_length: tf.Tensor, budget: int | tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Lengths int32 [B] after tokens are dropped from the end of the longer text until both fit `budget`.

    The closed form of the original's loop. Each text gets half of the budget, and whatever the
    other text does not use. A gets the odd token, since a tie costs B.
    """
    b_half = budget // 2
    a_half = budget - b_half
    return (
        tf.minimum(a_length, tf.maximum(a_half, budget - b_length)),
        tf.minimum(b_length, tf.maximum(b_half, budget - a_length)),
    )
