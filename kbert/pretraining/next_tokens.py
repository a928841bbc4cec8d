"""The targets of a left-to-right language model: every token predicts the next one, and nothing is masked.

Shapes: B batch, S sequence, P predictions.
"""

import tensorflow as tf

from kbert.checks import check_positive
from kbert.pretraining.masking import ascending_positions


class NextTokens:
    """Stands for `TokenMasking` in the layout of rows: the same results, for the paper's "LTR" model.

    Prediction n of a row is made at the position before its token, the n-th that is neither [CLS] nor [SEP]: the
    tokens that masks are chosen from. The text stays as it is.

    Args:
        tokenizer: `kbert.BertTokenizer`; gives the special ids.
        max_predictions: P; S - 2 are enough for all tokens of a row.

    Raises:
        ValueError: `max_predictions` is not a positive integer.

    Source: Devlin et al. 2018, section 5.1, "LTR & No NSP".
    """

    def __init__(self, tokenizer, max_predictions):
        (self.max_predictions,) = check_positive("NextTokens", max_predictions=max_predictions).values()
        self.tokenizer = tokenizer

    def call(self, batch, keys=None, entity_ids=None):
        """(`batch` with ``mask_positions`` int32 [B, P], the tokens to predict int32 [B, P], float32 [B, P] weights).

        Args:
            batch: dict with ``token_ids`` int32 [B, S] and ``padding_mask`` bool [B, S].
            keys, entity_ids: of `TokenMasking`; nothing here is random.
        """
        following = batch["token_ids"][:, 1:]  # [B, S - 1]
        is_special = (following == self.tokenizer.cls_id) | (following == self.tokenizer.sep_id)
        positions, is_real = ascending_positions(batch["padding_mask"][:, 1:] & ~is_special, self.max_predictions)
        token_ids = tf.gather(following, positions, batch_dims=1)  # [B, P]
        inputs = {**batch, "mask_positions": positions}
        return inputs, tf.where(is_real, token_ids, 0), tf.cast(is_real, tf.float32)

    def most_masks(self, lengths):
        """At most how many predictions rows of so many tokens get: all but [CLS] and a [SEP], int32."""
        return tf.clip_by_value(tf.cast(lengths, tf.int32) - 2, 1, self.max_predictions)
