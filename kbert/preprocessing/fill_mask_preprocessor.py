"""Strings with [MASK] in them → batch with the masks' positions.

Shapes: B batch, S sequence, M masks.
"""

import keras
import tensorflow as tf

from kbert.checks import check_bool, check_positive
from kbert.preprocessing.preprocessor import Preprocessor
from kbert.preprocessing.strings import string_columns
from kbert.text.packing import content_length, pack_ranges


@keras.saving.register_keras_serializable("kbert")
class FillMaskPreprocessor(Preprocessor):
    """Tokenises texts in which ``[MASK]`` marks a token to predict, and finds the masks.

    A text that does not fit is truncated at its end. If this would remove all of its masks, the part around its first
    mask is kept instead. The first `max_masks` masks of the kept part are answered and counted; a text without masks is
    valid and has count 0.

    Args:
        tokenizer: `kbert.BertTokenizer`; one without `special_tokens_in_text` is replaced by one with it.
        sequence_length: S, static.
        max_masks: M, static: the maximum number of masks of a text that are answered.
        special_tokens_in_text: the option of the model's tokenizer for other tasks, which is stored with the model;
            None: as `tokenizer`.
        causal: whether the model is left-to-right: it predicts a mask at the token before it, from what is on its left.
        **kwargs: name, dtype, trainable.

    Inputs:
        inputs: dict with the string column ``text`` [B], or the strings themselves.

    Outputs:
        dict of ``token_ids``, ``segment_ids`` int32 [B, S], ``padding_mask`` bool [B, S], ``mask_positions`` int32
        [B, M] (ascending, then 0; of a causal model one less) and ``count`` int32 [B].

    Raises:
        ValueError: a missing column, a single string, a sequence length too short for text, `max_masks` below 1.
        TypeError: a column that does not hold strings.

    Example::

        preprocessor = FillMaskPreprocessor(kbert.BertTokenizer("vocab.txt"), sequence_length=16)
        preprocessor(["Paris is the [MASK] of France."])["mask_positions"]  # [[4, 0, 0, 0, 0, 0, 0, 0]]
    """

    option_names = ("max_masks",)

    def __init__(
        self, tokenizer, sequence_length=128, max_masks=8, special_tokens_in_text=None, causal=False, **kwargs
    ):
        super().__init__(tokenizer.reading_special_tokens(), sequence_length, **kwargs)
        content_length(sequence_length, 1)
        check_positive("FillMaskPreprocessor", max_masks=max_masks)
        self.max_masks = max_masks
        self.causal = check_bool(causal, "FillMaskPreprocessor: `causal`")
        if special_tokens_in_text is None:
            special_tokens_in_text = tokenizer.special_tokens_in_text
        self.special_tokens_in_text = check_bool(
            special_tokens_in_text, "FillMaskPreprocessor: `special_tokens_in_text`"
        )

    def call(self, inputs):
        (text,) = string_columns(inputs, self.input_names, "FillMaskPreprocessor")
        ids = self.tokenizer.call(text)  # ragged [B, None]
        max_tokens = content_length(self.sequence_length, 1)
        starts = tf.cast(ids.row_starts(), tf.int32)  # [B]
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        offset = self._window_start(ids, lengths, max_tokens)
        batch = pack_ranges(
            tf.concat([ids.values, [self.tokenizer.pad_id]], axis=0),  # never empty
            starts + offset,
            tf.minimum(lengths - offset, max_tokens),
            sequence_length=self.sequence_length,
            **self.special_ids,
        )
        is_mask = batch["token_ids"] == self.tokenizer.mask_id  # [B, S]
        # Masks first, in their order: a stable sort of 0 and 1.
        order = tf.argsort(tf.cast(~is_mask, tf.int32), axis=1, stable=True)
        order = tf.pad(order, [[0, 0], [0, max(0, self.max_masks - self.sequence_length)]])[
            :, : self.max_masks
        ]  # [B, M]
        count = tf.minimum(tf.math.count_nonzero(is_mask, axis=1, dtype=tf.int32), self.max_masks)  # [B]
        is_real = tf.range(self.max_masks)[tf.newaxis, :] < count[:, tf.newaxis]
        return {**batch, "mask_positions": tf.where(is_real, order - int(self.causal), 0), "count": count}

    def _window_start(self, ids, lengths, max_tokens):
        """First token kept of each text, int32 [B]: 0, unless all masks come after the first `max_tokens` tokens."""
        first = tf.ragged.range(lengths)  # [B, None] 0, 1, ...
        beyond = tf.int32.max
        positions = first.with_values(tf.where(ids.values == self.tokenizer.mask_id, first.values, beyond))
        first_mask = tf.reduce_min(positions, axis=1)  # [B], `beyond` in a text without a mask
        is_lost = (first_mask >= max_tokens) & (first_mask < beyond)
        around = tf.maximum(tf.minimum(first_mask - max_tokens // 2, lengths - max_tokens), 0)
        return tf.where(is_lost, around, 0)

    def compute_output_spec(self, inputs):
        column = inputs["text"] if isinstance(inputs, dict) else inputs
        size = column.shape[0]
        return {
            **self.batch_spec(size),
            "mask_positions": keras.KerasTensor((size, self.max_masks), dtype="int32"),
            "count": keras.KerasTensor((size,), dtype="int32"),
        }

    def settings(self):
        settings = super().settings()  # of the model, for other tasks: this preprocessor always reads [MASK]
        settings["tokenizer"]["special_tokens_in_text"] = self.special_tokens_in_text
        return settings

    def get_config(self):
        return {
            **super().get_config(),
            "special_tokens_in_text": self.special_tokens_in_text,
            "causal": self.causal,
        }
