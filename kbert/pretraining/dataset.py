"""Records → masked sentence-pair batches, as `model.fit` takes them.

    records ─► pools of tokens ─► table of pairs ─► shuffled rows ─► laid out and masked ─► batches

Every step is a function of (seed, epoch, document): batch n is the same in every process, after any restart, for any
number of replicas.

Shapes: B batch, S sequence, P predictions, K parts of a packed row, n sentences, r rows that are laid out at once.
"""

import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from kbert.config import MASK_RATE, default_num_parts
from kbert.corpus.corpus_files import is_tfrecords
from kbert.corpus.held_out import HELD_OUT
from kbert.corpus.pool import POOL_BYTES, pools_at_once
from kbert.corpus.records import Records
from kbert.errors import reading_errors
from kbert.keras_compat import with_known_length
from kbert.options import Count, Fraction, Natural, NonzeroFraction, checked
from kbert.pretraining.masking import NextTokens, TokenMasking
from kbert.pretraining.pairs import PairTable, max_pair_tokens
from kbert.pretraining.record_pools import held_out_fractions, record_pools
from kbert.pretraining.row_sampler import RowSampler
from kbert.pretraining.rows import packed_rows, plain_rows
from kbert.pretraining.tfrecords import check_tfrecords, tfrecord_rows

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


_EVALUATION_SEED = 0x6B62657274  # one held-out set for all training seeds
_ROWS_AT_ONCE = 512
Source = str | os.PathLike | Records | Sequence[str | os.PathLike]  # records, open or not, or .tfrecord files
_graph = tf.autograph.experimental.do_not_convert  # unneeded without Python control flow, and half of the start-up time


@checked
def pretraining_dataset(
    source: Source,
    tokenizer: "BertTokenizer",
    *,
    batch_size: Count,
    sequence_length: Count = 128,
    max_predictions: Count = 20,
    seed: Natural = 0,
    start_step: Natural = 0,
    epochs: Count | None = None,
    evaluation: bool = False,
    batches: Count | None = None,
    packed: bool = False,
    num_parts: Count | None = None,
    fill_rows: bool = False,
    held_out: Fraction | None = None,
    next_sentence: bool = True,
    short_sequence_rate: Fraction = 0.1,
    random_next_rate: Fraction = 0.5,
    mask_rate: NonzeroFraction = MASK_RATE,
    mask_token_rate: Fraction = 0.8,
    keep_rate: Fraction = 0.1,
    random_token_rate: Fraction = 0.1,
    whole_word: bool = False,
    entity_ids: Callable[[tf.RaggedTensor], tf.RaggedTensor] | None = None,
    left_to_right: bool = False,
    dupe_factor: Count | None = None,
) -> tf.data.Dataset:
    """The batches of BERT's pre-training, from records.

    Each epoch visits every document once, with new pairs and new masks, in a new order of the shards and of the
    instances within a shard.

    Args:
        source: `kbert.corpus.Records` or their directory (`kbert.corpus.write_records` makes them of text); or path(s)
            or pattern(s) of .tfrecord files of the original's create_pretraining_data.py, with the pairs and masks of
            these files.
        tokenizer: `kbert.BertTokenizer` that the records were made with (`Records(directory).tokenizer()`).
        batch_size: B, over all replicas.
        sequence_length: S.
        max_predictions: P, the maximum number of masks in a row, over all its parts if it is packed; the original uses
            80 for 512 tokens.
        seed: determines everything that is random; unused with `evaluation`.
        start_step: number of batches to skip. Their rows are only counted.
        epochs: how often each document is visited; None: infinitely often. Rows of the last epoch that do not fill a
            batch are dropped.
        evaluation: whether to give the held-out documents instead of the others: once, always with the same pairs,
            masks and order, built immediately and kept in memory. Rows that fill up the last batch have weight 0.
        batches: the maximum number of batches. With `evaluation` each shard of records gives its fraction of them.
        packed: whether short pairs share a row, as its parts: they attend only to themselves, and positions begin anew
            with each. A pair has the same masks as in a row of its own. Pairs are combined within a pool, best fit,
            longest first, and never truncated further; a row takes a part only if its masks fit into P, too. Rows come
            in a random order, with `evaluation` as well.
        num_parts: K, the maximum number of parts in a packed row; None: S / 16, at least 4.
        fill_rows: whether packed rows get further short pairs where they have space
            (`kbert.pretraining.rows`), for corpora of short documents. Held-out rows are never filled.
        held_out: fraction of the rows of TFRecords that are for evaluation only, chosen by their text; 0.01 by default.
            Records have their own.
        next_sentence: False: single segments of text and no `nsp_logits`, for a `BertPretrainer` without it.
        short_sequence_rate, random_next_rate: see `kbert.pretraining.sentence_pairs`.
        mask_rate, mask_token_rate, keep_rate, random_token_rate, whole_word: see `TokenMasking`.
        entity_ids: function from the token ids of sentences (ragged [n, None]) to int32 ids of the same shape (0 = no
            entity), run in graph: an entity is masked as a whole.
        left_to_right: True: no masks, every token predicts the next (`NextTokens`), and `mask_rate`, the rates
            after it, `whole_word` and `entity_ids` are not used.
        dupe_factor: after how many epochs the same pairs and masks are repeated, as in the original's files, which
            hold each document 10 times; None: never.

    Returns:
        tf.data.Dataset of (inputs, labels, sample_weight) with static shapes. inputs: `token_ids`, `segment_ids`
        int32 and `padding_mask` bool [B, S], `mask_positions` int32 [B, P]; labels: `mlm_logits` int32 [B, P],
        `nsp_logits` int32 [B], 0 = IsNext; sample_weight: `mlm_logits` float32 [B, P], `nsp_logits` float32 [B].
        With `packed` inputs also have `position_ids` and `part_ids` int32 [B, S] (parts from 1, 0 = padding), and
        `nsp_logits` are [B, K], with weight 0 for parts that a row does not have: a `BertPretrainer` with `num_parts`.

    Raises:
        ValueError: before any long work: no records, damaged ones or records of another vocabulary, a sequence length
            that is too short, no held-out documents, `held_out` with records. Damage found later ends the iteration
            with a `tf.errors.OpError`, which `kbert.errors` turns into a ValueError that names the file.

    Source: Devlin et al. 2018, sections 3.1 and A.2; google-research/bert create_pretraining_data.py.

    Example::

        records = kbert.corpus.write_records(kbert.corpus.read_documents("corpus/*.txt"), tokenizer, "records")
        model.fit(pretraining_dataset(records, tokenizer, batch_size=32), steps_per_epoch=1000)
    """
    if held_out == 1 and not evaluation:
        raise ValueError("pretraining_dataset: `held_out` must be less than 1, or there is nothing to train on")
    max_pair_tokens(sequence_length, next_sentence)  # an error if rows are too short
    if num_parts is not None and not packed:
        raise ValueError(f"`num_parts` is for packed rows. Received: num_parts={num_parts!r}, packed={packed!r}")
    if fill_rows and not packed:
        raise ValueError(f"`fill_rows` is for packed rows. Received: fill_rows={fill_rows!r}, packed={packed!r}")
    mask_rates = {"mask_rate": mask_rate, "mask_token_rate": mask_token_rate}
    mask_rates |= {"keep_rate": keep_rate, "random_token_rate": random_token_rate}
    if left_to_right:
        masking = NextTokens(tokenizer, max_predictions)
        entity_ids = None
    else:
        masking = TokenMasking(tokenizer, max_predictions, whole_word=whole_word, **mask_rates)
    if evaluation:
        seed, epochs = _EVALUATION_SEED, 1
    rows_before = start_step * batch_size
    if is_tfrecords(source):
        decided = {"packed": packed, "whole_word": whole_word, "entity_ids": entity_ids, "dupe_factor": dupe_factor}
        decided |= {"left_to_right": left_to_right, "random_next_rate": random_next_rate, **mask_rates}
        _check_decided(decided)
        held_out = HELD_OUT if held_out is None else held_out
        check_tfrecords(source, held_out, (sequence_length, max_predictions), evaluation)
        lengths = {"sequence_length": sequence_length, "max_predictions": max_predictions}
        which = {"seed": seed, "epochs": epochs, "evaluation": evaluation, "held_out": held_out}
        rows = tfrecord_rows(source, tokenizer, **lengths, **which, next_sentence=next_sentence).skip(rows_before)
        return _finished(rows.batch(batch_size, drop_remainder=not evaluation), batch_size, evaluation, batches)
    records = source if isinstance(source, Records) else Records(source)
    if held_out is not None:
        raise ValueError(
            "pretraining_dataset: records have held-out documents of their own (`held_out` of "
            f"kbert.corpus.write_records). Received: held_out={held_out}"
        )
    records.check_tokenizer(tokenizer)
    sampler = RowSampler(
        masking=masking,
        seed=seed,
        sequence_length=sequence_length,
        next_sentence=next_sentence,
        short_sequence_rate=short_sequence_rate,
        random_next_rate=random_next_rate,
        num_parts=(num_parts or default_num_parts(sequence_length)) if packed else None,
        fill_rows=fill_rows and not evaluation,
        dupe_factor=dupe_factor,
    )
    pools, rows_before = record_pools(records, seed, epochs, evaluation, sampler.count, rows_before)
    numbers = None
    if evaluation and batches is not None:
        numbers = held_out_fractions(records, sampler.count, batches * batch_size)
    pool_bytes = records.pool_bytes(evaluation)
    rows = masked_rows(
        sampled_rows(pools, sampler, pool_bytes=pool_bytes, numbers=numbers, entity_ids=entity_ids),
        masking,
        sequence_length=sequence_length,
        next_sentence=next_sentence,
        num_parts=sampler.num_parts,
        rows_before=rows_before,
    )
    return _finished(rows.rebatch(batch_size, drop_remainder=not evaluation), batch_size, evaluation, batches)


def _check_decided(options):
    """Raises ValueError for an option, other than its default, that was decided when TFRecords were written."""
    parameters = inspect.signature(pretraining_dataset).parameters
    changed = {name: value for name, value in options.items() if value != parameters[name].default}
    if changed:
        shown = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        raise ValueError(f"pretraining_dataset: TFRecords were masked when they were written. Received: {shown}")


def _finished(dataset, batch_size, evaluation, batches):
    if evaluation:
        dataset = dataset.map(_graph(lambda *batch: _filled(batch, batch_size)))
    if batches is not None:
        dataset = dataset.take(batches)
    if evaluation:
        dataset = _in_memory(dataset)
    return with_options(dataset).prefetch(tf.data.AUTOTUNE)


def sampled_rows(
    pools: tf.data.Dataset,
    sampler: RowSampler,
    *,
    pool_bytes: int = POOL_BYTES,
    numbers: np.ndarray | None = None,
    entity_ids: Callable[[tf.RaggedTensor], tf.RaggedTensor] | None = None,
) -> tf.data.Dataset:
    """The rows of a dataset of (epoch int64, `TokenPool`), as `masked_rows` takes them.

    `numbers`, int32 [number of pools], limits the rows of each pool. `pool_bytes` is the size of a large pool.
    """

    def sample(epoch, pool):
        return _token_columns(pool, entity_ids), *sampler.sample(pool, epoch)

    sampled = pools.map(_graph(sample), num_parallel_calls=pools_at_once(pool_bytes), deterministic=True)
    if numbers is None:
        return sampled
    zipped = tf.data.Dataset.zip(sampled, tf.data.Dataset.from_tensor_slices(numbers))
    return zipped.map(_graph(lambda element, rows: (*element[:2], element[2][: rows + 1])))


def masked_rows(
    sampled: tf.data.Dataset,
    masking: TokenMasking | NextTokens,
    *,
    sequence_length: int,
    next_sentence: bool,
    num_parts: int | None = None,
    rows_before: int = 0,
) -> tf.data.Dataset:
    """Rows laid out and masked, some hundred at once: (inputs, labels, weights, *columns).

    `sampled` has (values, `PairTable`, splits), see `packed_rows`, and columns with one value a row [r], which are
    returned as well; without `num_parts` rows are plain. `rows_before` are left out at the beginning of the first
    element.
    """

    def divide(number, element):
        values, table, splits, *columns = element
        first = tf.where(number == 0, tf.constant(rows_before, tf.int64), 0)
        starts = tf.data.Dataset.range(first, tf.size(splits, tf.int64) - 1, _ROWS_AT_ONCE)
        return starts.map(_graph(lambda start: (values, *_rows_from(start, table, splits, columns))))

    # Not `scan`: TensorFlow keeps its function as long as the process.
    rows = sampled.enumerate().prefetch(1).flat_map(_graph(divide))
    options = {"sequence_length": sequence_length, "next_sentence": next_sentence}

    def lay_out(values, table, splits, *columns):
        if num_parts is None:
            return *plain_rows(masking, values, table, **options), *columns
        return *packed_rows(masking, values, table, splits, num_parts=num_parts, **options), *columns

    return rows.map(
        _graph(lay_out),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def filled_batches(rows: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
    """Batches of one size; rows that fill up the last one have weight 0."""
    return rows.rebatch(batch_size).map(_graph(lambda *batch: _filled(batch, batch_size)))


def _token_columns(pool, entity_ids):
    if entity_ids is None:
        return {"token_ids": pool.token_ids}
    sentences = tf.RaggedTensor.from_row_lengths(tf.cast(pool.token_ids, tf.int32), pool.sentence_lengths)
    return {"token_ids": pool.token_ids, "entity_ids": tf.cast(entity_ids(sentences).flat_values, tf.int32)}


def _rows_from(first, table, splits, columns):
    """The pairs, splits and columns of r rows, from row `first` on."""
    splits = splits[first : first + _ROWS_AT_ONCE + 1]
    columns = tuple(column[first : first + _ROWS_AT_ONCE] for column in columns)
    return PairTable(*(column[splits[0] : splits[-1]] for column in table)), splits - splits[0], *columns


def _filled(batch, batch_size):
    """A smaller last batch filled up with copies of its last row, of weight 0."""
    inputs, labels, weights = batch
    size = tf.shape(weights["mlm_logits"])[0]
    row = tf.range(batch_size)

    def fill(column):
        return tf.ensure_shape(tf.gather(column, tf.minimum(row, size - 1)), [batch_size, *column.shape[1:]])

    def weigh(column):
        is_real = tf.reshape(tf.cast(row < size, column.dtype), [-1] + [1] * (len(column.shape) - 1))
        return fill(column) * is_real

    inputs, labels = ({name: fill(column) for name, column in part.items()} for part in (inputs, labels))
    return inputs, labels, {name: weigh(column) for name, column in weights.items()}


def _in_memory(dataset):
    """The batches of a dataset, made now: what made them is not set up again whenever they are read."""
    with reading_errors():
        batches = list(dataset.as_numpy_iterator())
    if not batches:
        return with_known_length(dataset, 0)
    return tf.data.Dataset.from_tensor_slices(tf.nest.map_structure(lambda *columns: np.stack(columns), *batches))


def with_options(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    # Every worker makes the whole batch and takes its part, because batches cannot be divided by files.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)
