"""WordPiece: normalised strings → ids and the bytes they stand for.

Shapes: B strings, t pieces of all of them, w words of all of them, V vocabulary.
"""

import functools
from collections.abc import Mapping, Sequence

import tensorflow as tf

from kbert.keras_compat import import_tensorflow_text
from kbert.text.normalizer import traced_once
from kbert.text.vocabulary import UNK


class WordPiece:
    """Splits normalised strings into words and words into the longest pieces of the vocabulary.

    `pieces(strings [B])` returns ragged (ids, starts, ends), each [B, None]: int32 ids, int64 bytes
    of the strings.

    Args:
        vocabulary: the tokens; a piece inside a word starts with ``##``.
        aliases: further words and the ids they get.
        split_words: whether words are already separated by single spaces
            (`Normalizer(split_words=True)`). False: the strings are text, split at white space,
            punctuation and CJK characters by the op.
        max_word_length: a longer word, in characters, is unknown.

    Raises:
        ValueError: a vocabulary with no tokens other than the special ones.

    Source: google-research/bert, tokenization.py, WordpieceTokenizer; the matching is Song et al.
    2020 (arXiv 2012.15524), as tensorflow-text has it.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        aliases: Mapping[str, int] | None = None,
        split_words: bool = False,
        max_word_length: int = 200,
    ):
        tensorflow_text = import_tensorflow_text()

        aliases = aliases or {}
        words = _matchable(vocabulary) + list(aliases)
        self._split_words = split_words
        self._max_word_length = max_word_length
        self._unk_id = vocabulary.index(UNK)
        # A layer may be made while a graph is being traced; its constants must outlive that graph.
        with tf.init_scope(), tf.device("CPU:0"):
            try:
                self._op = tensorflow_text.FastWordpieceTokenizer(
                    words,
                    max_bytes_per_word=4 * max_word_length,  # never less than max_word_length characters
                    token_out_type=tf.int32,
                    unknown_token=UNK,
                    no_pretokenization=split_words,
                )
            except RuntimeError as error:
                raise ValueError(
                    f"Expected a vocabulary with tokens other than the special ones: letters, pieces, words. Received: "
                    f"{len(vocabulary):,} tokens, none of which can occur in text ({error}) Learn one: "
                    "kbert vocabulary."
                ) from error
            self._ids = tf.constant([*range(len(vocabulary)), *aliases.values()]) if aliases else None  # [V + aliases]
            self._continues = tf.constant([word.startswith("##") for word in words])  # [V + aliases]
            self._characters = tf.constant([len(word.removeprefix("##")) for word in words])  # [V + aliases]

    def pieces(self, strings: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        if self._split_words:
            ids, starts, ends = self._pieces_of_words(strings)
        else:
            ids, starts, ends = self._op.tokenize_with_offsets(strings)
        ids, starts, ends = self._limit_words(ids, starts, ends)
        if self._ids is not None:
            ids = ids.with_values(tf.gather(self._ids, ids.values))
        return ids, starts, ends

    def _pieces_of_words(self, strings):
        words = tf.strings.split(strings, " ")  # [B, None]
        steps = tf.strings.length(words, unit="BYTE") + 1
        first = tf.cumsum(steps.values, exclusive=True)  # [w]
        row_first = tf.gather(tf.concat([[0], tf.cumsum(steps.values)], 0), words.row_starts())  # [B]
        first = tf.cast(first - tf.gather(row_first, words.value_rowids()), tf.int64)  # [w], bytes from the row's start
        ids, starts, ends = self._op.tokenize_with_offsets(words.values)  # [w, None]
        shift = tf.gather(first, ids.value_rowids())  # [t]
        splits = tf.gather(ids.row_splits, words.row_splits)
        return tuple(
            tf.RaggedTensor.from_row_splits(values, splits, validate=False)
            for values in (ids.values, starts.values + shift, ends.values + shift)
        )

    def _limit_words(self, ids, starts, ends):
        """Makes words of more than max_word_length characters [UNK]; the op itself counts bytes."""
        values = ids.values, starts.values, ends.values, ids.row_splits
        *values, splits = _limiting()(
            *values, self._continues, self._characters, tf.constant(self._max_word_length), tf.constant(self._unk_id)
        )
        return tuple(tf.RaggedTensor.from_row_splits(value, splits, validate=False) for value in values)


@functools.cache
def _limiting():
    """`_limit`, traced."""
    values = [tf.TensorSpec([None], dtype) for dtype in (tf.int32, tf.int64, tf.int64, tf.int64, tf.bool, tf.int32)]
    return traced_once(_limit, *values, *[tf.TensorSpec([], tf.int32)] * 2)


def _limit(ids, starts, ends, splits, continues, characters, max_word_length, unk_id):
    """Pieces [t] and row splits [B + 1], without the later pieces of words that are too long.

    `continues` [V] and `characters` [V] are for each piece of the vocabulary.
    """
    begins = ~tf.gather(continues, ids)  # [t]
    first = tf.where(begins)[:, 0]  # [w]
    last = tf.concat([first[1:], [tf.size(begins, tf.int64)]], 0)[: tf.size(first)] - 1  # [w]
    longest = tf.reduce_max(tf.gather(ends, last) - tf.gather(starts, first))  # bytes >= characters

    def limit():
        word = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # [t]
        lengths = tf.math.segment_sum(tf.gather(characters, ids), word)  # [w]
        too_long = tf.gather(lengths > max_word_length, word)  # [t]
        kept = begins | ~too_long  # [t]
        new_ids = tf.where(too_long, unk_id, ids)
        new_ends = tf.where(too_long, tf.gather(tf.gather(ends, last), word), ends)
        count = tf.concat([[0], tf.cumsum(tf.cast(kept, tf.int64))], 0)
        values = (tf.boolean_mask(value, kept) for value in (new_ids, starts, new_ends))
        return (*values, tf.gather(count, splits))

    return tf.cond(longest > tf.cast(max_word_length, tf.int64), limit, lambda: (ids, starts, ends, splits))


def _matchable(vocabulary):
    """The vocabulary with stand-ins for the tokens on which the op fails, and which no word matches.

    The op fails on empty tokens, and on white space or NUL in a token.
    """
    return [
        f"[unmatchable{i}]" if not token or any(c.isspace() or c == "\0" for c in token) else token
        for i, token in enumerate(vocabulary)
    ]
