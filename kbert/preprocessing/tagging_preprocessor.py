"""Texts of any length → words, and windows of their tokens for a tagger.

Shapes: B texts, T words of the longest text, W windows of all texts, S sequence, w words of all texts.
"""

import keras
import tensorflow as tf

from kbert.checks import check_positive
from kbert.preprocessing.limits import at_most, limit_rows
from kbert.preprocessing.preprocessor import Preprocessor
from kbert.preprocessing.strings import string_columns
from kbert.preprocessing.windows import max_context, sliding_windows, window_tokens
from kbert.text.packing import content_length, pack_ranges
from kbert.text.words import split_words

# Cells of the dense answers [B, T] for each token within the limit on windows.
_CELLS_PER_TOKEN = 16


@keras.saving.register_keras_serializable("kbert")
class TaggingPreprocessor(Preprocessor):
    """Splits texts into words and packs their tokens into windows ``[CLS] … [SEP]``, to label every word.

    A text that is longer than a window is divided into several overlapping ones. The windows of all
    texts make one batch. A word is labelled at its first token, in the window where that token has
    the most context. Texts may have any length, and words too: of a word that is longer than a
    window the first tokens are used. A word without tokens (characters that BERT deletes) is read
    as [UNK].

    Training uses texts that are already split into words: `windows`.

    Args:
        tokenizer: `kbert.BertTokenizer`.
        sequence_length: S, static.
        doc_stride: tokens from one window's start to the next one's. None: half a window, so that
            the middle half of each window counts.
        **kwargs: name, dtype, trainable.

    Inputs:
        inputs: dict with the string column ``text`` [B], or the strings themselves.
        max_windows: int, the maximum number of windows of all texts together. More raise an
            InvalidArgumentError in the graph, before memory is allocated for them. None: no limit.

    Outputs:
        A dict of these:
        token_ids, segment_ids: int32 [W, S].
        padding_mask: bool [W, S].
        window_row: int32 [W], the window's text.
        window_token: int32 [W, S], number of the token among all texts' tokens; -1: none.
        is_max_context: bool [W, S], whether this is the token's window with most context.
        token_starts, token_ends: int32 [W, S], the token's code points in the text; 0: none.
        text: string [B].
        words: string [B, T], filled with "".
        word_starts, word_ends: int32 [B, T], code points of the text, filled with -1.
        word_position: int32 [B, T], where in the flat [W * S] the word is labelled, filled with -1.
        word_count: int32 [B].

    Raises:
        ValueError: a missing column, a single string, a sequence length too short for text, a
            stride that is not a positive integer.
        TypeError: a column that does not hold strings.

    Source: Devlin et al. 2018, section 5.3; windows as in google-research/bert run_squad.py.

    Example::

        batch = TaggingPreprocessor(kbert.BertTokenizer("vocab.txt"))(["EU rejects German call."])
        batch["words"]  # [["EU", "rejects", "German", "call", "."]]
    """

    makes_windows = True
    option_names = ("doc_stride",)

    def __init__(self, tokenizer, sequence_length=128, doc_stride=None, **kwargs):
        super().__init__(tokenizer, sequence_length, **kwargs)
        doc_stride = max(1, content_length(self.sequence_length, 1) // 2) if doc_stride is None else doc_stride
        (self.doc_stride,) = check_positive("TaggingPreprocessor", doc_stride=doc_stride).values()

    def call(self, inputs, max_windows=None):
        (text,) = string_columns(inputs, self.input_names, "TaggingPreprocessor")
        words, starts, ends = self._limit_cells(split_words(text), max_windows)
        ids, piece_starts, piece_ends = self.tokenizer.tokenize_with_offsets(words.values)
        lengths = ends.values - starts.values  # [w]
        pieces = [
            _or_else(ids, ids, self.tokenizer.unk_id),
            _or_else(piece_starts, ids, 0) + starts.values[:, tf.newaxis],
            _or_else(piece_ends, ids, lengths) + starts.values[:, tf.newaxis],
        ]
        batch = self._windows(words, *pieces, max_windows=max_windows)
        return {
            **batch,
            "text": text,
            "words": words.to_tensor(""),
            "word_starts": starts.to_tensor(-1),
            "word_ends": ends.to_tensor(-1),
        }

    def windows(self, words):
        """The batch of texts that are already words: as a call returns it, without ``text`` and offsets.

        Args:
            words: ragged string [B, None].
        """
        ids = self.tokenizer.call(words.values)
        batch = self._windows(words, _or_else(ids, ids, self.tokenizer.unk_id))
        return {**batch, "words": words.to_tensor("")}

    def _limit_cells(self, columns, max_windows):
        """The ragged columns, after a check that [B, T] is small: one long text makes every short row long."""
        if max_windows is None:
            return columns
        shape = columns[0].bounding_shape(out_type=tf.int64)  # [B, T]
        counted = "word positions (texts times the words of the longest one)"
        advice = "Send long texts separately, or export the model with a larger max_request_tokens."
        limit = _CELLS_PER_TOKEN * max_windows * self.sequence_length
        values = at_most(tf.reduce_prod(shape), limit, counted, advice, [column.values for column in columns])
        return [column.with_values(value) for column, value in zip(columns, values, strict=True)]

    def _windows(self, words, ids, token_starts=None, token_ends=None, max_windows=None):
        """The batch of words whose `ids` and offsets are ragged [w, None], at least one token per word."""
        max_tokens = self.sequence_length - 2
        pieces = tf.cast(ids.row_lengths(), tf.int32)  # [w]
        first = tf.cumsum(pieces, exclusive=True)  # [w], of each word, among all tokens
        text_first = tf.gather(tf.concat([[0], tf.cumsum(pieces)], 0), words.row_splits)  # [B + 1]
        windows = sliding_windows(text_first[1:] - text_first[:-1], max_tokens, self.doc_stride)
        windows = limit_rows(windows, tf.size(windows[0]), max_windows, self.sequence_length)
        window_row, window_start, window_length = windows
        batch = pack_ranges(
            tf.concat([ids.values, [self.tokenizer.pad_id]], 0),  # never empty
            tf.gather(text_first, window_row) + window_start,
            window_length,
            sequence_length=self.sequence_length,
            **self.special_ids,
        )
        around = [[0, 0], [1, 1]]  # [CLS], and the last [SEP]
        token = tf.pad(window_tokens(*windows, max_tokens), around, constant_values=-1)  # [W, S]
        is_max = tf.pad(max_context(*windows, max_tokens), around)
        # Each token has one window with most context: its position there, for all tokens in their order.
        positions = tf.cast(tf.where(tf.reshape(is_max, [-1])), tf.int32)  # [tokens, 1]
        number = tf.gather(tf.reshape(token, [-1]), positions[:, 0])  # [tokens]
        position = tf.scatter_nd(number[:, tf.newaxis], positions[:, 0], tf.shape(number))  # [tokens]
        batch |= {"window_row": window_row, "window_token": token, "is_max_context": is_max}
        for name, values in (("token_starts", token_starts), ("token_ends", token_ends)):
            if values is not None:
                values = tf.concat([values.values, [0]], 0)
                batch[name] = tf.where(token >= 0, tf.gather(values, tf.maximum(token, 0)), 0)
        word_position = tf.RaggedTensor.from_row_splits(tf.gather(position, first), words.row_splits, validate=False)
        batch["word_position"] = word_position.to_tensor(-1)  # [B, T]
        batch["word_count"] = tf.cast(words.row_lengths(), tf.int32)
        return batch

    def compute_output_spec(self, inputs, max_windows=None):
        rows = (inputs["text"] if isinstance(inputs, dict) else inputs).shape[0]
        window, words = (None, self.sequence_length), (rows, None)
        shapes = {
            "int32": {
                **dict.fromkeys(("window_token", "token_starts", "token_ends"), window),
                **dict.fromkeys(("word_starts", "word_ends", "word_position"), words),
                "window_row": (None,),
                "word_count": (rows,),
            },
            "bool": {"is_max_context": window},
            "string": {"text": (rows,), "words": words},
        }
        word_specs = {
            name: keras.KerasTensor(shape, dtype=dtype)
            for dtype, named in shapes.items()
            for name, shape in named.items()
        }
        return {**self.batch_spec(None), **word_specs}


def _or_else(values, ids, filler):
    """`values` of the pieces, ragged [w, None], with `filler` for words that have none."""
    lacks = tf.cast(ids.row_lengths() == 0, tf.int64)  # [w]
    filler = tf.repeat(tf.broadcast_to(tf.cast(filler, values.dtype), tf.shape(lacks)), lacks)
    return tf.concat([values, tf.RaggedTensor.from_row_lengths(filler, lacks, validate=False)], axis=1)
