"""Questions and contexts → windows, for answers that are a span of the context.

Shapes: B questions, W windows of all of them, S sequence.
"""

import keras
import tensorflow as tf

from kbert.checks import check_positive
from kbert.preprocessing.limits import limit_rows
from kbert.preprocessing.preprocessor import Preprocessor
from kbert.preprocessing.strings import string_columns
from kbert.preprocessing.windows import max_context, sliding_windows, window_tokens
from kbert.text.packing import content_length, pack_ranges


@keras.saving.register_keras_serializable("kbert")
class SpanPreprocessor(Preprocessor):
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
        max_windows: int, the maximum number of windows of all texts together. More raise an
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
    makes_windows = True
    option_names = ("doc_stride", "max_query_length")

    def __init__(self, tokenizer, sequence_length=384, doc_stride=128, max_query_length=64, **kwargs):
        super().__init__(tokenizer, sequence_length, **kwargs)
        content_length(sequence_length, 2)
        counts = check_positive("SpanPreprocessor", doc_stride=doc_stride, max_query_length=max_query_length)
        self.doc_stride, self.max_query_length = counts.values()

    def call(self, inputs, max_windows=None):
        question, context = string_columns(inputs, self.input_names, "SpanPreprocessor")
        question_ids = self.tokenizer.call(question)  # ragged [B, None]
        context_ids, starts, ends = self.tokenizer.tokenize_with_offsets(context)
        max_tokens = self.sequence_length - 3  # of question and window together
        query_length = tf.minimum(_lengths(question_ids), min(self.max_query_length, max_tokens - 1))  # [B]
        windows = sliding_windows(_lengths(context_ids), max_tokens - query_length, self.doc_stride)
        row, start, length = limit_rows(windows, tf.size(windows[0]), max_windows, self.sequence_length)  # [W]
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

    def compute_output_spec(self, inputs, max_windows=None):
        def windows(dtype):
            return keras.KerasTensor((None, self.sequence_length), dtype=dtype)

        return {
            **self.batch_spec(None),
            "window_row": keras.KerasTensor((None,), dtype="int32"),
            "window_token": windows("int32"),
            "is_max_context": windows("bool"),
            "token_starts": windows("int32"),
            "token_ends": windows("int32"),
            "context": keras.KerasTensor(inputs["context"].shape, dtype="string"),
        }


def _lengths(ragged):
    return tf.cast(ragged.row_lengths(), tf.int32)
