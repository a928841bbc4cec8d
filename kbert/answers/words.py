"""Logits of a tagger on windows → the tags of words, and entities with their positions.

Shapes: B texts, T words and e entities of the longest, W windows, S sequence, N labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from kbert.answers.answers import Answers, check_number, grouped_values
from kbert.checks import check_labels
from kbert.keras_compat import Tensor


class WordAnswers(Answers):
    """Base class of answers about words: the outputs of `pad_values`, [B, None], and ``count`` int32 [B]."""

    option_names = ("labels",)
    fits_table = False
    tagging_output: str  # the option of `kbert.build_pipeline` that chooses these answers

    def __init__(self, labels: Sequence[str] | np.ndarray, **kwargs):
        super().__init__(**kwargs)
        self.labels = tuple(check_labels(labels, type(self).__name__))

    def word_tags(
        self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
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

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "tagging_output": self.tagging_output}


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

    def call(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> dict[str, tf.Tensor]:
        ids, scores, is_word = self.word_tags(outputs, batch)
        tags = tf.where(is_word, tf.gather(tf.constant(self.labels), ids), "")
        return {"words": batch["words"], "tags": tags, "scores": scores, "count": batch["word_count"]}

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """``words``: a list of ``word``, ``tag`` and ``score``."""
        return grouped_values(answers, "words", {"words": "word", "tags": "tag", "scores": "score"})


@keras.saving.register_keras_serializable("kbert")
class EntityAnswers(WordAnswers):
    """The entities of each text: runs of words whose tags belong together.

    An entity begins at a tag B- or S- (U-), at a tag of another type than the previous word's, and after O, E- or L-.
    This reads IOB1, IOB2, BIOES and BILOU alike, and reads sequences that follow no scheme as CoNLL's evaluation does.
    A label without such a prefix, other than O, is a type, and consecutive words of one type are one entity.

    Args:
        labels: list of N strings, the tags in the order of the logits.
        **kwargs: name, dtype, trainable.

    Inputs:
        outputs: dict with ``logits`` [W, S, N].
        batch: what `TaggingPreprocessor` made of strings.

    Returns:
        dict of ``entities``, ``types`` string [B, e] (padded with ""), ``starts``, ``ends`` int32 [B, e] (with -1),
            ``scores`` float32 [B, e], the mean probability of the words' tags (with 0), and ``count`` int32 [B]. Starts
            and ends count code points of the text and are half-open: ``text[start:end]`` is exactly the entity.

    Raises:
        ValueError: no labels, or not as many as logits.

    Source: conlleval's rules (Tjong Kim Sang and Buchholz 2000).

    Example::

        EntityAnswers(["O", "B-PER", "I-PER"])(tagger(windows), batch)["entities"]  # [["Peter Blackburn"], [""]]
    """

    tagging_output = "entities"
    pad_values = {"entities": "", "types": "", "starts": -1, "ends": -1, "scores": 0.0}

    def __init__(self, labels: Sequence[str] | np.ndarray, **kwargs):
        super().__init__(labels, **kwargs)
        prefixes, types = zip(*map(prefix_and_type, self.labels), strict=True)
        self._types = ("", *sorted(set(types) - {""}))  # "" for O
        self._type_of = tuple(self._types.index(type_) for type_ in types)
        self._begins = tuple(prefix in "BSU" for prefix in prefixes)
        self._ends = tuple(prefix in "ELSU" for prefix in prefixes)

    def call(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> dict[str, tf.Tensor]:
        ids, scores, is_word = self.word_tags(outputs, batch)
        type_ = tf.where(is_word, tf.gather(tf.constant(self._type_of), ids), 0)  # [B, T]
        is_in = type_ > 0
        before = tf.pad(type_, [[0, 0], [1, 0]])[:, :-1]
        ended = tf.pad(tf.gather(tf.constant(self._ends), ids), [[0, 0], [1, 0]])[:, :-1]
        begins = is_in & ((type_ != before) | tf.gather(tf.constant(self._begins), ids) | ended)

        first = tf.where(begins)  # [entities, 2]: text, word
        count = tf.math.count_nonzero(begins, axis=1, dtype=tf.int32)  # [B]
        number = tf.cumsum(tf.cast(tf.reshape(begins, [-1]), tf.int32)) - 1  # [B * T], the entity so far
        number = tf.where(tf.reshape(is_in, [-1]), number, -1)  # unsorted_segment_* ignore negative segments
        entities = tf.shape(first)[0]
        word = tf.range(tf.size(number))
        last = tf.math.unsorted_segment_max(word, number, entities)  # [entities]
        starts = tf.gather_nd(batch["word_starts"], first)
        ends = tf.gather(tf.reshape(batch["word_ends"], [-1]), last)
        columns = {
            "entities": _pieces(batch["text"], tf.cast(first[:, 0], tf.int32), starts, ends),
            "types": tf.gather(tf.constant(self._types), tf.gather_nd(type_, first)),
            "starts": starts,
            "ends": ends,
            "scores": tf.math.unsorted_segment_mean(tf.reshape(scores, [-1]), number, entities),
        }
        answers = {
            name: tf.RaggedTensor.from_row_lengths(values, count, validate=False).to_tensor(self.pad_values[name])
            for name, values in columns.items()
        }
        return answers | {"count": count}

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """``entities``: a list of ``entity``, ``type``, ``start``, ``end`` and ``score``."""
        names = {"entities": "entity", "types": "type", "starts": "start", "ends": "end", "scores": "score"}
        return grouped_values(answers, "entities", names)


def prefix_and_type(label: str) -> tuple[str, str]:
    """ "B-PER" → ("B", "PER"), "O" → ("O", ""). A label without such a prefix is a type: "PRO" → ("I", "PRO")."""
    prefix, _, type_ = label.partition("-")
    if label == "O":
        return "O", ""
    return (prefix, type_) if len(prefix) == 1 and prefix in "BIESLU" and type_ else ("I", label)


def _pieces(texts, rows, starts, ends):
    """``texts[row][start:end]`` in code points, strings [entities], in time linear in the texts."""
    characters = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")  # [B, None]
    first = tf.gather(tf.cast(characters.row_starts(), tf.int32), rows)  # [entities]
    places = tf.ragged.range(first + starts, first + ends)  # [entities, None]
    return tf.strings.unicode_encode(places.with_values(tf.gather(characters.values, places.values)), "UTF-8")
