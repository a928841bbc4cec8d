"""Logits of a tagger → words with their tags.

Shapes: B texts, T words of the longest, W windows, S sequence, N labels.
"""

import keras
import tensorflow as tf

from kbert.answers.answers import grouped_values
from kbert.answers.word_answers import WordAnswers


@keras.saving.register_keras_serializable("kbert")
class TagAnswers(WordAnswers):
    """Every word of each text with its most probable tag.

    Args:
        labels: list of N strings, the tags in the order of the logits.
        **kwargs: name, dtype, trainable.

    Inputs:
        outputs: dict with ``logits`` [W, S, N].
        batch: what `TaggingPreprocessor` returned.

    Returns:
        dict of ``words``, ``tags`` string [B, T] (padded with ""), ``scores`` float32 [B, T], the tags' probabilities
        (padded with 0), and ``count`` int32 [B], the number of words of each text.

    Raises:
        ValueError: no labels, or not as many as logits.

    Source: Devlin et al. 2018, section 5.3: a word's tag is that of its first token, no CRF.

    Example::

        TagAnswers(["O", "B-PER", "I-PER"])(tagger(windows), batch)["tags"]  # [["B-PER", "O", ""], …]
    """

    pad_values = {"words": "", "tags": "", "scores": 0.0}
    tagging_output = "tags"

    def call(self, outputs, batch):
        ids, scores, is_word = self.word_tags(outputs, batch)
        tags = tf.where(is_word, tf.gather(tf.constant(self.labels), ids), "")
        return {"words": batch["words"], "tags": tags, "scores": scores, "count": batch["word_count"]}

    def to_dicts(self, answers):
        """``words``: a list of ``word``, ``tag`` and ``score``."""
        return grouped_values(answers, "words", {"words": "word", "tags": "tag", "scores": "score"})
