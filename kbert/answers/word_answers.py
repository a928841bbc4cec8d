"""What the answers of taggers share: a tag for each word, from logits on windows.

Shapes: B texts, T words of the longest, W windows, S sequence, N labels.
"""

import keras
import tensorflow as tf

from kbert.answers.answers import Answers, check_number
from kbert.checks import check_labels

_DTYPES = {str: "string", int: "int32", float: "float32"}


class WordAnswers(Answers):
    """Base class of answers about words, whose outputs are those of `pad_values`, [B, None], and ``count`` int32 [B].

    Attributes:
        tagging_output: the option of `kbert.build_pipeline` that chooses these answers.
    """

    option_names = ("labels",)
    fits_table = False
    tagging_output: str

    def __init__(self, labels, **kwargs):
        super().__init__(**kwargs)
        self.labels = tuple(check_labels(labels, type(self).__name__))

    def word_tags(self, outputs, batch):
        """The most probable label of each word, at the position that `TaggingPreprocessor` chose.

        `outputs` has ``logits`` [W, S, N], `batch` has ``word_position`` int32 [B, T]. Returns (ids int32 [B, T],
        scores float32 [B, T], is_word bool [B, T]). Ids and scores are 0 where there is no word.
        """
        check_number(self.labels, outputs["logits"].shape, type(self).__name__)
        logits = tf.reshape(tf.cast(outputs["logits"], tf.float32), [-1, len(self.labels)])  # [W * S, N]
        position = batch["word_position"]
        is_word = position >= 0
        # An empty text has a window too, so W is at least 1.
        probabilities = tf.nn.softmax(tf.gather(logits, tf.maximum(position, 0)))  # [B, T, N]
        ids = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        scores = tf.reduce_max(probabilities, axis=-1)
        return tf.where(is_word, ids, 0), tf.where(is_word, scores, 0.0), is_word

    def compute_output_spec(self, outputs, batch):
        check_number(self.labels, outputs["logits"].shape, type(self).__name__)
        rows = batch["word_count"].shape[0]
        dtypes = {name: _DTYPES[type(value)] for name, value in self.pad_values.items()}
        answers = {name: keras.KerasTensor((rows, None), dtype=dtype) for name, dtype in dtypes.items()}
        return answers | {"count": keras.KerasTensor((rows,), dtype="int32")}

    def settings(self):
        return {**super().settings(), "tagging_output": self.tagging_output}
