"""The pools of records in the order of the epochs, for training or evaluation."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from kbert.corpus.held_out import KINDS, describe_one_document, sufficient_fraction
from kbert.corpus.pool import TokenPool, pools_at_once
from kbert.corpus.records import Records
from kbert.errors import reading_errors
from kbert.stateless_random import fold_in, permutation

_SHARDS = 2  # keeps this draw independent of other uses of the same seed
_FOREVER = 2**62
_graph = tf.autograph.experimental.do_not_convert  # unneeded without Python control flow, and half of the start-up time


def record_pools(
    records: Records,
    seed: int,
    epochs: int | None,
    evaluation: bool,
    count_rows: Callable[[TokenPool, tf.Tensor], tf.Tensor],
    rows_before: int,
) -> tuple[tf.data.Dataset, int]:
    """The pools of records, from the one on that row `rows_before` is in, without reading the tokens before it.

    `count_rows` gives the rows of (pool without tokens, epoch). Returns (tf.data.Dataset of (epoch int64, `TokenPool`),
    how many rows of its first pool come before that row).
    """
    shards = check_shards(records, evaluation)

    def epoch_and_shard(position):
        epoch = position // shards
        number = tf.cast(position % shards, tf.int32)
        return epoch, number if evaluation else permutation(fold_in(seed, _SHARDS, epoch), shards)[number]

    def count(position):
        epoch, shard = epoch_and_shard(position)
        return count_rows(records.index(shard, evaluation), epoch)

    first = 0
    last = shards * epochs if epochs is not None else _FOREVER
    if rows_before:
        counts = tf.data.Dataset.range(last).map(_graph(count), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        with reading_errors():
            for first, rows in enumerate(counts.as_numpy_iterator()):  # noqa: B007 - used below
                if rows_before < rows:
                    break
                rows_before -= int(rows)
            else:
                first = last
    positions = tf.data.Dataset.range(first, last)

    def load(position):
        epoch, shard = epoch_and_shard(position)
        return epoch, records.pool(shard, evaluation)

    calls = pools_at_once(records.pool_bytes(evaluation))
    return positions.map(_graph(load), num_parallel_calls=calls, deterministic=True), rows_before


def check_shards(records: Records, evaluation: bool) -> int:
    """The number of shards for training or evaluation; raises ValueError if there are none."""
    if shards := len(records.held_out if evaluation else records.training):
        return shards
    count = records.manifest["counts"]["documents"]
    if count == 1:
        raise ValueError(f"{records.directory}: {describe_one_document(count)}")
    advice = f"--held-out {sufficient_fraction(count)}" if evaluation else "a smaller --held-out"
    raise ValueError(
        f"{records.directory}: none of its {count:,} documents is {KINDS[evaluation]} at held_out="
        f"{records.manifest['settings']['held_out']}. Prepare the records again with {advice} --overwrite."
    )


def held_out_fractions(records: Records, count_rows: Callable[[TokenPool, int], tf.Tensor], wanted: int) -> np.ndarray:
    """How many rows each shard of held-out records gives, so that `wanted` of them stand for all of its documents.

    A shard may be a single book: the first rows in the order of the shards would be a sample of one text. int32
    [shards], at most what the shards have.
    """
    rows = np.array([count_rows(records.index(shard, True), 0) for shard in range(len(records.held_out))], np.int64)
    ends = np.cumsum(rows)
    if ends[-1] > wanted:
        ends = ends * wanted // ends[-1]
    return np.diff(ends, prepend=0).astype(np.int32)
