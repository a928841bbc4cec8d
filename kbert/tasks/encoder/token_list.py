"""The tokens that a model reads, with their positions in the text.

Shapes: B batch, S sequence.
"""

import tensorflow as tf

from kbert.preprocessing.strings import string_columns
from kbert.text.packing import pack

_NONE = -1


def token_list(preprocessor, inputs):
    """The tokens of a `TextPreprocessor`'s batch, in readable form.

    Returns:
        dict of ``token_ids``, ``segment_ids`` int32 [B, S]; ``tokens`` string [B, S], as in the vocabulary; ``starts``,
        ``ends`` int32 [B, S], code points of the text that a token is from (of ``text_pair`` where the segment is 1),
        -1 for [CLS], [SEP] and padding; ``count`` int32 [B]: the positions from there on are padding, with the id of
        [PAD], "" and -1.
    """
    tokenizer = preprocessor.tokenizer
    batch = preprocessor(inputs)
    columns = string_columns(inputs, preprocessor.input_names, "tokenize")
    pieces = [tokenizer.tokenize_with_offsets(column) for column in columns]  # of each text (ids, starts, ends)
    size = preprocessor.sequence_length
    starts, ends = (
        pack([piece[i] for piece in pieces], size, cls_id=_NONE, sep_id=_NONE, pad_id=_NONE)["token_ids"]
        for i in (1, 2)
    )
    tokens = tf.gather(tf.constant(tokenizer.vocabulary), batch["token_ids"])  # [B, S]
    return {
        "token_ids": batch["token_ids"],
        "segment_ids": batch["segment_ids"],
        "tokens": tf.where(batch["padding_mask"], tokens, ""),
        "starts": starts,
        "ends": ends,
        "count": tf.math.count_nonzero(batch["padding_mask"], axis=1, dtype=tf.int32),
    }
