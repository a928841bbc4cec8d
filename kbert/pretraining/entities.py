"""What is masked as a whole: names from a list, found among the tokens of sentences in graph, or spans of one length.

Shapes: n sentences, t tokens of all sentences.
"""

import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from kbert.aliases import PathLike

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


_MOST_TOKENS = 12  # of a name; longer ones would hardly ever fit into a row's masks
_FACTOR = 0x5851F42D4C957F2D  # odd: products of 64 bits keep all of a token's information


def read_names(path: PathLike) -> list[str]:
    """The names of a file, one a line."""
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: invalid UTF-8 at byte {error.start}. Save the file as UTF-8.") from error
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise ValueError(f"{path}: expected names, one a line. Received: an empty file")
    return names


def known_names(names: Sequence[str], tokenizer: "BertTokenizer") -> Callable[[tf.RaggedTensor], tf.RaggedTensor]:
    """A function for `pretraining_dataset(entity_ids=…)`: each occurrence of a name is one entity.

    Names are compared by their tokens, whatever the case of the text that the tokens came from, and stand for whole
    words. Of overlapping names the longest counts; of equally long ones none that overlaps one before it.

    Args:
        names: names of at least two words. Names of one token or of more than 12, and names with unknown tokens, are
            ignored.

    Returns:
        Function: ragged token ids of sentences [n, None] → ids of entities of the same shape, 0 outside of names.

    Raises:
        ValueError: no name that can be found.
    """
    ids = tokenizer(tf.constant(list(names))).to_list()
    unknown = tokenizer.unk_id
    usable = {tuple(name) for name in ids if 2 <= len(name) <= _MOST_TOKENS and unknown not in name}
    if not usable:
        raise ValueError("known_names: expected names of several known tokens. Received: none")
    tables = {}
    for length in sorted({len(name) for name in usable}, reverse=True):
        rows = np.array(sorted(name for name in usable if len(name) == length), "int64")
        tables[length] = np.unique(_hashes(rows))
    continues = np.array([token.startswith("##") for token in tokenizer.vocabulary])

    def entity_ids(sentences):
        tokens = sentences.flat_values
        row = sentences.value_rowids()
        flat = _mark(tf.cast(tokens, tf.int64), tf.cast(row, tf.int64), tables, tf.constant(continues))
        return sentences.with_flat_values(flat)

    return entity_ids


def _mark(tokens, row, tables, continues):
    """The ids of entities, int32 [t], of tokens and the sentences that they are in."""
    result = tf.zeros_like(tokens, tf.int32)
    is_first_piece = ~tf.gather(continues, tokens)
    for number, (length, table) in enumerate(tables.items()):
        key = tf.zeros_like(tokens)
        for place in range(length):
            key = key * _FACTOR + _ahead(tokens, place, 0) + 1
        row_of_table = tf.minimum(tf.searchsorted(table, key), len(table) - 1)
        is_name = (tf.gather(tf.constant(table), row_of_table) == key) & (_ahead(row, length - 1, -1) == row)
        is_whole = is_first_piece & ((_ahead(row, length, -1) != row) | _ahead(is_first_piece, length, True))
        taken = _count(result > 0)  # [t + 1]
        is_free = _ahead(taken, length, 0)[:-1] == taken[:-1]
        starts = is_name & is_whole & is_free
        before = _count(starts)[:-1]
        starts &= before == _behind(before, length - 1)  # none of this length begins shortly before
        count = _count(starts)[1:]
        inside = count > _behind(count, length)
        result = tf.where(inside, count * len(tables) + number + 1, result)
    return result


def _hashes(rows):
    keys = np.zeros(len(rows), "int64")
    with np.errstate(over="ignore"):
        for column in rows.T:
            keys = keys * np.int64(_FACTOR) + column + 1
    return keys


def _ahead(values, places, last):
    """The value so many places later, and `last` after the end."""
    return tf.concat([values[places:], tf.fill([tf.minimum(places, tf.size(values))], tf.cast(last, values.dtype))], 0)


def _behind(values, places):
    """The value so many places earlier, and 0 before the beginning."""
    zeros = tf.zeros([tf.minimum(places, tf.size(values))], values.dtype)
    return tf.concat([zeros, values[: tf.maximum(0, tf.size(values) - places)]], 0)


def _count(is_one):
    """How many are true before each place and at the end, int32 [t + 1]."""
    return tf.concat([[0], tf.cumsum(tf.cast(is_one, tf.int32))], 0)
