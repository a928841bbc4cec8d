"""A tagger's logits on windows → a tag for each word, for tags and entities.

Shapes: B texts, T words of the longest, W windows, S sequence, N labels.
"""

import tensorflow as tf


def word_tags(outputs, batch, num_labels):
    """The most probable label of each word, at the position that `TaggingPreprocessor` chose.

    Args:
        outputs: dict with ``logits`` [W, S, N].
        batch: dict with ``word_position`` int32 [B, T].
        num_labels: N.

    Returns:
        (ids int32 [B, T], scores float32 [B, T], is_word bool [B, T]); ids and scores are 0 where there is no word.
    """
    logits = tf.reshape(tf.cast(outputs["logits"], tf.float32), [-1, num_labels])  # [W * S, N]
    position = batch["word_position"]
    is_word = position >= 0
    # An empty text has a window too, so W is at least 1.
    probabilities = tf.nn.softmax(tf.gather(logits, tf.maximum(position, 0)))  # [B, T, N]
    ids = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
    scores = tf.reduce_max(probabilities, axis=-1)
    return tf.where(is_word, ids, 0), tf.where(is_word, scores, 0.0), is_word
