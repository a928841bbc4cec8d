"""What an encoder gives for each token: hidden states of chosen layers, and the tokens themselves.

Shapes: B batch, S sequence, L layers, H hidden.
"""

import keras
import tensorflow as tf

from kbert.preprocessing.strings import string_columns
from kbert.text.packing import pack


def encoder_layers(encoder, layers=None):
    """A model on the encoder's batch with the output ``features`` float32 [B, S, L, H]; it shares the encoder's layers.

    `layers` are indices into the encoder's hidden states: 0 is the embeddings, -1 the last block. None means the last
    four, or all where there are fewer.

    Source: Devlin et al. 2018, section 5.3 (the feature-based approach); Google's ``extract_features.py``.
    """
    states = [_tensor(layer.output) for layer in (encoder.embeddings, *encoder.blocks)]
    if layers is None:
        layers = range(-1, -1 - min(4, len(states)), -1)
    known = range(-len(states), len(states))
    is_list = isinstance(layers, (list, tuple, range)) and len(layers) > 0
    if not is_list or any(type(layer) is not int or layer not in known for layer in layers):
        raise ValueError(
            f"features: `layers` must be a list of hidden states, {known[0]} to {known[-1]}. Received: {layers!r}"
        )
    stacked = keras.ops.stack([keras.ops.cast(states[layer], "float32") for layer in layers], axis=2)  # [B, S, L, H]
    return keras.Model(encoder.input, {"features": stacked})


def _tensor(output):
    return output[0] if isinstance(output, (list, tuple)) else output  # with attention_probs a block gives two


_NONE = -1


def token_list(preprocessor, inputs):
    """The tokens of a `TextPreprocessor`'s batch, in readable form.

    Returns:
        dict of ``token_ids``, ``segment_ids`` int32 [B, S]; ``tokens`` string [B, S], as in the vocabulary; ``count``
            int32 [B]; ``starts``, ``ends`` int32 [B, S], the code points of the text that a token is from (of
            ``text_pair`` where the segment is 1), -1 for [CLS] and [SEP]. The positions from ``count`` on are padding,
            with the id of [PAD], "" and -1.
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
