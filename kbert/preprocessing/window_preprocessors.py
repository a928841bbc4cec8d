"""Long texts → overlapping windows: for labels of documents, answers to questions and tags of words.

Shapes: B texts, T words of the longest text, W windows of all texts, S sequence, w words of all texts.
"""

from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from kbert.checks import check_option
from kbert.options import Count
from kbert.preprocessing.preprocessor import Preprocessor, tokens_of
from kbert.preprocessing.strings import string_columns
from kbert.preprocessing.windows import at_most, limit_rows, max_context, sliding_windows, window_tokens
from kbert.text.packing import content_length, pack_ranges
from kbert.text.words import split_words

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


_PLACES = {
    "window_token": "int32 W S",
    "is_max_context": "bool W S",
    "token_starts": "int32 W S",
    "token_ends": "int32 W S",
}


class WindowPreprocessor(Preprocessor):
    """Base class of preprocessors that divide long texts into windows, `doc_stride` tokens apart."""

    makes_windows = True
    outputs = tokens_of("W S") | {"window_row": "int32 W"}
    option_names = ("doc_stride",)

    def __init__(self, tokenizer: "BertTokenizer", sequence_length: int, doc_stride: int, texts: int = 1, **kwargs):
        super().__init__(tokenizer, sequence_length, **kwargs)
        content_length(sequence_length, texts)  # raises
        self.doc_stride = check_option(type(self).__name__, "doc_stride", doc_stride, Count)

    def windows_of(
        self, lengths: tf.Tensor, max_tokens: int | tf.Tensor, max_windows: int | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(row, start, length) [W] of the windows of texts of so many tokens [B]."""
        windows = sliding_windows(lengths, max_tokens, self.doc_stride)
        return limit_rows(windows, tf.size(windows[0]), max_windows, self.sequence_length)

    def pack_windows(
        self, tokens: tf.RaggedTensor, max_windows: int | None
    ) -> tuple[tuple[tf.Tensor, tf.Tensor, tf.Tensor], dict[str, tf.Tensor]]:
        """The windows of ragged tokens [B, None], and the batch of ``[CLS] window [SEP]``."""
        windows = self.windows_of(tokens.row_lengths(), self.sequence_length - 2, max_windows)
        row, start, length = windows
        batch = pack_ranges(
            tf.concat([tokens.values, [self.tokenizer.pad_id]], 0),  # never empty
            tf.cast(tf.gather(tokens.row_starts(), row), tf.int32) + start,
            length,
            sequence_length=self.sequence_length,
            **self.special_ids,
        )
        return windows, {**batch, "window_row": row}


@keras.saving.register_keras_serializable("kbert")
class DocumentPreprocessor(WindowPreprocessor):
    """Packs every window of each text into ``[CLS] window [SEP]``, so that long texts are not truncated.

    A text that fits is one row, as `TextPreprocessor` makes it. A longer one becomes several. The
    answers pool the model's outputs for a text's windows (``window_pooling="mean"`` or ``"max"``).

    Args:
        tokenizer: `kbert.BertTokenizer`.
        sequence_length: S, static.
        doc_stride: tokens from one window's start to the next one's. From S - 2 on, windows do not
            overlap.
        **kwargs: name, dtype, trainable.

    Inputs:
        inputs: dict with the string column ``text`` [B], or the strings themselves.
        max_windows: the maximum number of windows of all texts together. More raise an
            InvalidArgumentError in the graph, before memory is allocated for them. None: no limit.

    Outputs:
        dict of ``token_ids``, ``segment_ids`` int32 [W, S], ``padding_mask`` bool [W, S];
        ``window_row`` int32 [W], the text each window belongs to, ascending; ``text`` string [B].

    Raises:
        ValueError: a missing column, a single string, a length or stride that is not a positive
            integer.
        TypeError: a column that does not hold strings.

    Example::

        DocumentPreprocessor(tokenizer, sequence_length=128, doc_stride=64)(["A long text. " * 200])["token_ids"].shape
    """

    outputs = WindowPreprocessor.outputs | {"text": "string B"}

    def __init__(self, tokenizer: "BertTokenizer", sequence_length: int = 128, doc_stride: int = 128, **kwargs):
        super().__init__(tokenizer, sequence_length, doc_stride, **kwargs)

    def call(self, inputs: Any, max_windows: int | None = None) -> dict[str, tf.Tensor]:
        (text,) = string_columns(inputs, self.input_names, "DocumentPreprocessor")
        _, batch = self.pack_windows(self.tokenizer.call(text), max_windows)
        return {**batch, "text": text}


@keras.saving.register_keras_serializable("kbert")
class SpanPreprocessor(WindowPreprocessor):
    """Packs each question with every window of its context into ``[CLS] question [SEP] window [SEP]``.

    A context that does not fit becomes several rows, its overlapping windows. So W may be larger
    than B. A question longer than `max_query_length` is truncated at its end, and further if S is
    so small that no token of the context would fit. Empty questions and contexts are valid: an
    empty context has one window without content.

    Args:
        tokenizer: `kbert.BertTokenizer`.
        sequence_length: S, static; at least 5.
        doc_stride: tokens from one window's start to the next one's.
        max_query_length: the maximum number of tokens of a question.
        **kwargs: name, dtype, trainable.

    Inputs:
        inputs: dict with the string columns ``question`` and ``context`` [B].
        max_windows: the maximum number of windows of all texts together. More raise an
            InvalidArgumentError in the graph, before memory is allocated for them. None: no limit.

    Outputs:
        A dict of these:
        token_ids, segment_ids: int32 [W, S].
        padding_mask: bool [W, S].
        window_row: int32 [W], the question each window belongs to, ascending.
        window_token: int32 [W, S], number of the token among all contexts' tokens; -1 outside of a
            context.
        is_max_context: bool [W, S], whether this is the window in which the token has the most
            context.
        token_starts, token_ends: int32 [W, S], code points of the context that the token stands
            for; 0 where `window_token` is -1.
        context: string [B], from which the answers are cut.

    Raises:
        ValueError: a missing column, a single string, a length, stride or limit that is not a
            positive integer.
        TypeError: columns that do not hold strings.

    Source: Devlin et al. 2018, section 4.2; google-research/bert run_squad.py,
    ``convert_examples_to_features``.

    Example::

        preprocessor = SpanPreprocessor(kbert.BertTokenizer("vocab.txt"), sequence_length=64, doc_stride=16)
        batch = preprocessor({"question": ["Who wrote it?"], "context": ["It was written by Ada Lovelace. " * 30]})
        batch["token_ids"].shape  # (11, 64)
    """

    input_names = ("question", "context")
    outputs = WindowPreprocessor.outputs | _PLACES | {"context": "string B"}
    option_names = ("doc_stride", "max_query_length")

    def __init__(
        self,
        tokenizer: "BertTokenizer",
        sequence_length: int = 384,
        doc_stride: int = 128,
        max_query_length: int = 64,
        **kwargs,
    ):
        super().__init__(tokenizer, sequence_length, doc_stride, texts=2, **kwargs)
        self.max_query_length = check_option("SpanPreprocessor", "max_query_length", max_query_length, Count)

    def call(self, inputs: Any, max_windows: int | None = None) -> dict[str, tf.Tensor]:
        question, context = string_columns(inputs, self.input_names, "SpanPreprocessor")
        question_ids = self.tokenizer.call(question)  # ragged [B, None]
        context_ids, starts, ends = self.tokenizer.tokenize_with_offsets(context)
        max_tokens = self.sequence_length - 3  # of question and window together
        query_length = tf.cast(question_ids.row_lengths(), tf.int32)
        query_length = tf.minimum(query_length, min(self.max_query_length, max_tokens - 1))  # [B]
        row, start, length = self.windows_of(context_ids.row_lengths(), max_tokens - query_length, max_windows)
        query_length = tf.gather(query_length, row)  # [W]
        tokens = window_tokens(row, start, length, max_tokens)  # [W, S - 3]
        is_max = max_context(row, start, length, max_tokens)
        tokens, is_max = self._after_question(tokens, is_max, query_length)  # [W, S]
        first = 1 + tf.size(question_ids.values)  # after one filler, which keeps gathers valid if there are no tokens
        batch = pack_ranges(
            tf.concat([[self.tokenizer.pad_id], question_ids.values, context_ids.values], 0),
            1 + tf.cast(tf.gather(question_ids.row_starts(), row), tf.int32),
            query_length,
            first + tf.cast(tf.gather(context_ids.row_starts(), row), tf.int32) + start,
            length,
            sequence_length=self.sequence_length,
            **self.special_ids,
        )
        return {
            **batch,
            "window_row": row,
            "window_token": tokens,
            "is_max_context": is_max,
            "token_starts": tf.gather(tf.concat([[0], starts.values], 0), tokens + 1),
            "token_ends": tf.gather(tf.concat([[0], ends.values], 0), tokens + 1),
            "context": context,
        }

    def _after_question(self, tokens, is_max, query_length):
        """Columns by content position [W, S - 3], moved behind [CLS] question [SEP]: [W, S]."""
        position = tf.range(self.sequence_length)[tf.newaxis, :] - query_length[:, tf.newaxis] - 2  # [W, S]
        inside = (position >= 0) & (position < self.sequence_length - 3)
        position = tf.where(inside, position, 0)
        tokens = tf.where(inside, tf.gather(tokens, position, batch_dims=1), -1)
        return tokens, inside & tf.gather(is_max, position, batch_dims=1)


# Cells of the dense answers [B, T] for each token within the limit on windows.
_CELLS_PER_TOKEN = 16


@keras.saving.register_keras_serializable("kbert")
class TaggingPreprocessor(WindowPreprocessor):
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
        max_windows: the maximum number of windows of all texts together. More raise an
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

    outputs = {
        **WindowPreprocessor.outputs,
        **_PLACES,
        "text": "string B",
        "words": "string B T",
        "word_starts": "int32 B T",
        "word_ends": "int32 B T",
        "word_position": "int32 B T",
        "word_count": "int32 B",
    }

    def __init__(self, tokenizer: "BertTokenizer", sequence_length: int = 128, doc_stride: int | None = None, **kwargs):
        super().__init__(tokenizer, sequence_length, 1 if doc_stride is None else doc_stride, **kwargs)
        if doc_stride is None:
            self.doc_stride = max(1, (self.sequence_length - 2) // 2)

    def call(self, inputs: Any, max_windows: int | None = None) -> dict[str, tf.Tensor]:
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

    def windows(self, words: tf.RaggedTensor) -> dict[str, tf.Tensor]:
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
        first = tf.cast(ids.row_starts(), tf.int32)  # [w], of each word, among all tokens
        text_splits = tf.gather(ids.row_splits, words.row_splits)  # [B + 1]
        tokens = tf.RaggedTensor.from_row_splits(ids.values, text_splits, validate=False)
        windows, batch = self.pack_windows(tokens, max_windows)
        around = [[0, 0], [1, 1]]  # [CLS], and the last [SEP]
        token = tf.pad(window_tokens(*windows, max_tokens), around, constant_values=-1)  # [W, S]
        is_max = tf.pad(max_context(*windows, max_tokens), around)
        # Each token has one window with most context: its position there, for all tokens in their order.
        positions = tf.cast(tf.where(tf.reshape(is_max, [-1])), tf.int32)  # [tokens, 1]
        number = tf.gather(tf.reshape(token, [-1]), positions[:, 0])  # [tokens]
        position = tf.scatter_nd(number[:, tf.newaxis], positions[:, 0], tf.shape(number))  # [tokens]
        batch |= {"window_token": token, "is_max_context": is_max}
        for name, values in (("token_starts", token_starts), ("token_ends", token_ends)):
            if values is not None:
                values = tf.concat([values.values, [0]], 0)
                batch[name] = tf.where(token >= 0, tf.gather(values, tf.maximum(token, 0)), 0)
        word_position = tf.RaggedTensor.from_row_splits(tf.gather(position, first), words.row_splits, validate=False)
        batch["word_position"] = word_position.to_tensor(-1)  # [B, T]
        batch["word_count"] = tf.cast(words.row_lengths(), tf.int32)
        return batch


def _or_else(values, ids, filler):
    """`values` of the pieces, ragged [w, None], with `filler` for words that have none."""
    lacks = tf.cast(ids.row_lengths() == 0, tf.int64)  # [w]
    filler = tf.repeat(tf.broadcast_to(tf.cast(filler, values.dtype), tf.shape(lacks)), lacks)
    return tf.concat([values, tf.RaggedTensor.from_row_lengths(filler, lacks, validate=False)], axis=1)
