"""Text or records → masked sentence-pair batches, as `model.fit` takes them.

    documents ─► pools of tokens ─► table of pairs ─► shuffled rows ─► laid out and masked ─► batches

Every step is a function of (seed, epoch, document): batch n is the same in every process, after any restart, for any
number of replicas.

Shapes: B batch, S sequence, P predictions, K parts of a packed row, n sentences, r rows that are laid out at once.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from kbert.checks import check_integers, check_numbers, check_positive
from kbert.config import default_num_parts
from kbert.corpus.documents import texts_as_documents
from kbert.corpus.pool import POOL_BYTES, POOL_SENTENCES, pools_at_once, text_pools
from kbert.corpus.records import Records
from kbert.errors import reading_errors
from kbert.keras_compat import with_known_length
from kbert.pretraining.masking import NextTokens, TokenMasking
from kbert.pretraining.pairs import PairTable, count_pairs, max_pair_tokens, sentence_pairs
from kbert.pretraining.rows import add_further_parts, arrange_in_rows, count_rows, packed_rows, plain_rows, row_of_pairs
from kbert.pretraining.sources import (
    Source,
    TextSource,
    check_reading,
    held_out_fractions,
    open_source,
    record_pools,
    resolve_held_out,
    text_documents,
)
from kbert.pretraining.tfrecords import check_tfrecords, is_tfrecords, tfrecord_rows
from kbert.stateless_random import fold_in, permutation

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


_ORDER, _ROWS, _FURTHER = 3, 4, 5  # keep these draws independent of other uses of the same seed
_EVALUATION_SEED = 0x6B62657274  # one held-out set for all training seeds
_ROWS_AT_ONCE = 512
_graph = tf.autograph.experimental.do_not_convert  # nothing here is Python control flow over tensors; halves the start


def pretraining_dataset(
    source: Source,
    tokenizer: "BertTokenizer",
    *,
    batch_size: int,
    sequence_length: int = 128,
    max_predictions: int = 20,
    seed: int = 0,
    start_step: int = 0,
    start_row: int = 0,
    epochs: int | Callable[[], Iterable[int]] | None = None,
    evaluation: bool = False,
    batches: int | None = None,
    packed: bool = False,
    num_parts: int | None = None,
    fill_rows: bool = False,
    held_out: float | None = None,
    next_sentence: bool = True,
    short_sequence_rate: float = 0.1,
    random_next_rate: float = 0.5,
    mask_rate: float = 0.15,
    mask_token_rate: float = 0.8,
    keep_rate: float = 0.1,
    random_token_rate: float = 0.1,
    whole_word: bool = False,
    entity_ids: Callable[[tf.RaggedTensor], tf.RaggedTensor] | None = None,
    left_to_right: bool = False,
    dupe_factor: int | None = None,
    format: str = "auto",
    language: str = "en",
    pool_sentences: int = POOL_SENTENCES,
) -> tf.data.Dataset:
    """The batches of BERT's pre-training, from a corpus of text or from records.

    Each epoch visits every document once, with new pairs and new masks, in a new order: of the files of text or the
    shards of records, and of the instances within a pool (a shard, or `pool_sentences` sentences of text).

    Args:
        source: records directory, path(s) or glob pattern(s) of text (`kbert.corpus.read_documents`), a
            `kbert.corpus.DocumentList`, a list of texts or of lists of sentences, or path(s) or pattern(s) of the
            .tfrecord files of the original's create_pretraining_data.py, whose pairs and masks are those of the files.
        tokenizer: `kbert.BertTokenizer`; for records the one they were made with (`Records(directory).tokenizer()`).
        batch_size: B, over all replicas.
        sequence_length: S.
        max_predictions: P, the maximum number of masks in a row, over all its parts if it is packed; the original uses
            80 for 512 tokens.
        seed: determines everything that is random; unused with `evaluation`.
        start_step: number of batches to skip. Rows of records are counted; text is read and tokenised again, but not
            laid out and masked.
        start_row: number of rows to skip as well, where the batches before had other sizes.
        epochs: how often each document is visited; None: infinitely often. Rows of the last epoch that do not fill a
            batch are dropped. Of text also a function that is called as an iteration begins, and returns the numbers of
            its epochs; rows of weight 0 then fill up the last batch.
        evaluation: whether to give the held-out documents instead of the others: once, always with the same pairs,
            masks and order, built immediately and kept in memory. Rows that fill up the last batch have weight 0.
        batches: the maximum number of batches. With `evaluation` each shard of records gives its fraction of them; of a
            text corpus they come from its first pool of held-out documents.
        packed: whether short pairs share a row, as its parts: they attend only to themselves, and positions begin anew
            with each. A pair has the same masks as in a row of its own. Pairs are combined within a pool, best fit,
            longest first, and never truncated further; a row takes a part only if its masks fit into P, too. Rows come
            in a random order, with `evaluation` as well.
        num_parts: K, the maximum number of parts in a packed row; None: S / 16, at least 4.
        fill_rows: whether packed rows get further short pairs where they have space
            (`kbert.pretraining.rows`), for corpora of short documents. Held-out rows are never filled.
        held_out: fraction of the documents of a text corpus that are for evaluation only, chosen by their text; 0.01 by
            default. Records have their own.
        next_sentence: False: single segments of text and no `nsp_logits`, for a `BertPretrainer` without it.
        short_sequence_rate, random_next_rate: see `kbert.pretraining.sentence_pairs`.
        mask_rate, mask_token_rate, keep_rate, random_token_rate, whole_word: see `TokenMasking`.
        entity_ids: function from the token ids of sentences (ragged [n, None]) to int32 ids of the same shape (0 = no
            entity), run in graph: an entity is masked as a whole.
        left_to_right: True: no masks, every token predicts the next (`NextTokens`), and `mask_rate`, the rates
            after it, `whole_word` and `entity_ids` are not used.
        dupe_factor: after how many epochs the same pairs and masks are repeated, as in the original's files, which
            hold each document 10 times, and with them the order of the files of text; None: never.
        format, language: of files of text, as `kbert.corpus.read_documents` takes them.
        pool_sentences: how many sentences of text, in files or in memory, are a pool, from which random next sentences
            are drawn, and which is shuffled.

    Returns:
        tf.data.Dataset of (inputs, labels, sample_weight) with static shapes. inputs: `token_ids`, `segment_ids`
        int32 and `padding_mask` bool [B, S], `mask_positions` int32 [B, P]; labels: `mlm_logits` int32 [B, P],
        `nsp_logits` int32 [B], 0 = IsNext; sample_weight: `mlm_logits` float32 [B, P], `nsp_logits` float32 [B].
        With `packed` inputs also have `position_ids` and `part_ids` int32 [B, S] (parts from 1, 0 = padding), and
        `nsp_logits` are [B, K], with weight 0 for parts that a row does not have: a `BertPretrainer` with `num_parts`.

    Raises:
        ValueError: before any long work: no or empty files, documents without a token, damaged records or records of
            another vocabulary, a sequence length that is too short, no held-out documents, an option of text that is
            given for records. Damage found later ends the iteration with a `tf.errors.OpError`, which
            `kbert.errors` turns into a ValueError that names the file.

    Source: Devlin et al. 2018, sections 3.1 and A.2; google-research/bert create_pretraining_data.py.

    Example::

        dataset = pretraining_dataset("corpus/*.txt", tokenizer, batch_size=32)
        model.fit(dataset, steps_per_epoch=1000)
    """
    owner = "pretraining_dataset"
    counts = {"batch_size": batch_size, "sequence_length": sequence_length, "pool_sentences": pool_sentences}
    batch_size, sequence_length, pool_sentences = check_positive(owner, **counts).values()
    optional = {"epochs": epochs, "batches": batches, "num_parts": num_parts, "dupe_factor": dupe_factor}
    counted = {name: value for name, value in optional.items() if value is not None and not callable(value)}
    epochs, batches, num_parts, dupe_factor = (optional | check_positive(owner, **counted)).values()
    places = check_integers(owner, 0, start_step=start_step, start_row=start_row, seed=seed)
    start_step, start_row, seed = places.values()
    rates = {"short_sequence_rate": short_sequence_rate, "random_next_rate": random_next_rate}
    short_sequence_rate, random_next_rate = check_numbers(owner, "[0, 1]", **rates).values()
    if not isinstance(source, TextSource):
        source = texts_as_documents(source)
    held_out = resolve_held_out(owner, source, held_out, "[0, 1]" if evaluation else "[0, 1)")
    check_reading(owner, source, format=format, language=language, pool_sentences=pool_sentences)
    max_tokens = max_pair_tokens(sequence_length, next_sentence)
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
    if is_tfrecords(source):
        decided = {"packed": packed, "whole_word": whole_word, "entity_ids": entity_ids, "dupe_factor": dupe_factor}
        decided |= {"left_to_right": left_to_right, "random_next_rate": random_next_rate, **mask_rates}
        _check_decided(decided)
        check_tfrecords(source, held_out, (sequence_length, max_predictions), evaluation)
        lengths = {"sequence_length": sequence_length, "max_predictions": max_predictions}
        which = {"seed": seed, "epochs": epochs, "evaluation": evaluation, "held_out": held_out}
        drawn = tfrecord_rows(source, tokenizer, **lengths, **which, next_sentence=next_sentence)
        dataset = drawn.skip(start_step * batch_size + start_row).batch(batch_size, drop_remainder=not evaluation)
        return _finished(dataset, batch_size if evaluation else None, evaluation, batches)
    pairing = (max_tokens, short_sequence_rate, random_next_rate, next_sentence)
    parts = num_parts or default_num_parts(sequence_length)

    def find_rows(table):
        return row_of_pairs(masking, table, sequence_length, parts, next_sentence)

    def visit(epoch):
        return epoch if dupe_factor is None else epoch % dupe_factor

    @functools.partial(tf.function, autograph=False, reduce_retracing=True)  # counting calls it eagerly, too
    def draw_pairs(pool, epoch):
        return sentence_pairs(pool, seed, visit(epoch), *pairing)

    def count(pool, epoch):
        if packed:
            return count_rows(find_rows(draw_pairs(pool, epoch)))
        return count_pairs(pool, seed, visit(epoch), *pairing)

    rows_before = start_step * batch_size + start_row
    fractions = None
    pool_bytes = POOL_BYTES
    opened = open_source(source, format, language)
    if isinstance(opened, Records):
        opened.check_tokenizer(tokenizer)
        pools, rows_before = record_pools(opened, seed, epochs, evaluation, count, rows_before)
        pool_bytes = opened.pool_bytes(evaluation)
        if evaluation and batches is not None:
            fractions = held_out_fractions(opened, count, batches * batch_size)
    else:
        documents = text_documents(opened, tokenizer, seed, epochs, evaluation, held_out, visit)
        pools = text_pools(documents, tokenizer, pool_sentences).map(_graph(lambda epoch, _, pool: (epoch, pool)))

    def draw(epoch, pool):
        table = draw_pairs(pool, epoch)
        first = tf.reduce_sum(pool.document_ids[:1])  # 0 for an empty pool
        order = permutation(fold_in(seed, _ORDER, epoch, first), tf.size(table.keys))
        table = PairTable(*(tf.gather(column, order) for column in table))
        splits = tf.range(tf.size(table.keys) + 1)
        if packed:
            rows = find_rows(table)
            if fill_rows and not evaluation:
                key = fold_in(seed, _FURTHER, visit(epoch), first)
                table, rows = add_further_parts(
                    masking, pool, table, rows, key, sequence_length, parts, next_sentence, random_next_rate
                )
            table, splits = arrange_in_rows(table, rows, fold_in(seed, _ROWS, epoch, first))
        return _token_columns(pool, entity_ids), table, splits

    drawn = pools.map(_graph(draw), num_parallel_calls=pools_at_once(pool_bytes), deterministic=True)
    if fractions is not None:
        zipped = tf.data.Dataset.zip(drawn, tf.data.Dataset.from_tensor_slices(fractions))
        drawn = zipped.map(_graph(lambda element, rows: (*element[:2], element[2][: rows + 1])))
    dataset = masked_rows(
        drawn,
        masking,
        rows_before=rows_before,
        sequence_length=sequence_length,
        next_sentence=next_sentence,
        num_parts=parts if packed else None,
    )
    is_filled = evaluation or callable(epochs)
    dataset = dataset.rebatch(batch_size, drop_remainder=not is_filled)
    return _finished(dataset, batch_size if is_filled else None, evaluation, batches)


def _check_decided(options):
    """Raises ValueError for an option, other than its default, that was decided when TFRecords were written."""
    parameters = inspect.signature(pretraining_dataset).parameters
    changed = {name: value for name, value in options.items() if value != parameters[name].default}
    if changed:
        shown = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        raise ValueError(f"pretraining_dataset: TFRecords were masked when they were written. Received: {shown}")


def _finished(dataset, filled_size, evaluation, batches):
    if filled_size is not None:
        dataset = dataset.map(_graph(lambda *batch: _filled(batch, filled_size)))
    if batches is not None:
        dataset = dataset.take(batches)
    if evaluation:
        dataset = _in_memory(dataset)
    return with_options(dataset).prefetch(tf.data.AUTOTUNE)


def masked_rows(
    drawn: tf.data.Dataset,
    masking: TokenMasking | NextTokens,
    *,
    sequence_length: int,
    next_sentence: bool,
    num_parts: int | None = None,
    rows_before: int = 0,
) -> tf.data.Dataset:
    """Rows laid out and masked, some hundred at once: (inputs, labels, weights, *columns).

    `drawn` has (values, `PairTable`, splits), see `packed_rows`, and columns with one value a row [r], which are
    returned as well; without `num_parts` rows are plain. `rows_before` are left out at the beginning.
    """

    def divide(first, values, table, splits, *columns):
        starts = tf.data.Dataset.range(first, tf.size(splits, tf.int64) - 1, _ROWS_AT_ONCE)
        return starts.map(_graph(lambda start: (values, *_rows_from(start, table, splits, columns))))

    rows = drawn.scan(tf.constant(rows_before, tf.int64), _graph(_skip)).prefetch(1).flat_map(_graph(divide))
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


def _skip(remaining, element):
    values, table, splits, *columns = element
    skipped = tf.minimum(remaining, tf.size(splits, tf.int64) - 1)
    return remaining - skipped, (skipped, values, table, splits, *columns)


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
