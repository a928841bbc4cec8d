"""Long texts → windows, for labels of whole documents.

Shapes: B texts, W windows of all of them, S sequence.
"""

import keras
import tensorflow as tf

from kbert.checks import check_positive
from kbert.preprocessing.limits import limit_rows
from kbert.preprocessing.preprocessor import Preprocessor
from kbert.preprocessing.strings import string_columns
from kbert.preprocessing.windows import sliding_windows
from kbert.text.packing import content_length, pack_ranges


@keras.saving.register_keras_serializable("kbert")
class DocumentPreprocessor(Preprocessor):
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
        max_windows: int, the maximum number of windows of all texts together. More raise an
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

    makes_windows = True
    option_names = ("doc_stride",)

    def __init__(self, tokenizer, sequence_length=128, doc_stride=128, **kwargs):
        super().__init__(tokenizer, sequence_length, **kwargs)
        content_length(sequence_length, 1)
        (self.doc_stride,) = check_positive("DocumentPreprocessor", doc_stride=doc_stride).values()

    def call(self, inputs, max_windows=None):
        (text,) = string_columns(inputs, self.input_names, "DocumentPreprocessor")
        ids = self.tokenizer.call(text)  # ragged [B, None]
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        windows = sliding_windows(lengths, content_length(self.sequence_length, 1), self.doc_stride)
        row, start, length = limit_rows(windows, tf.size(windows[0]), max_windows, self.sequence_length)  # [W]
        batch = pack_ranges(
            tf.concat([ids.values, [self.tokenizer.pad_id]], 0),  # never empty
            tf.cast(tf.gather(ids.row_starts(), row), tf.int32) + start,
            length,
            sequence_length=self.sequence_length,
            **self.special_ids,
        )
        return {**batch, "window_row": row, "text": text}

    def compute_output_spec(self, inputs, max_windows=None):
        column = inputs["text"] if isinstance(inputs, dict) else inputs
        return {
            **self.batch_spec(None),
            "window_row": keras.KerasTensor((None,), dtype="int32"),
            "text": keras.KerasTensor(column.shape, dtype="string"),
        }
