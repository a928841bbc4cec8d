"""Text or records → masked sentence-pair batches, as `model.fit` takes them.

    documents ─► pools of tokens ─► table of pairs ─► shuffled rows, packed ─► masked ─► batches

Every step is a function of (seed, epoch, document): batch n is the same in every process, after any restart, for any
number of replicas.

Shapes: B batch, S sequence, P predictions, n sentences, r rows that are packed at once.
"""

import hashlib
import itertools
import os

import tensorflow as tf

from kbert.corpus.corpus_files import find_files
from kbert.corpus.documents import iterate_documents
from kbert.corpus.pool import POOL_SENTENCES, is_held_out, sufficient_share, text_pools
from kbert.corpus.reading_errors import reading_errors
from kbert.corpus.records import Records
from kbert.corpus.records_manifest import is_records
from kbert.keras_compat import with_known_length
from kbert.pretraining.masking import TokenMasking
from kbert.pretraining.pairs import PairTable, count_pairs, sentence_pairs
from kbert.stateless_random import fold_in, permutation
from kbert.text.packing import pack_ranges

_SHARDS, _ROWS = 2, 3  # keep these draws independent of other uses of the same seed
_EVALUATION_SEED = 0x6B62657274  # one held-out set for all training seeds
_ROWS_AT_ONCE = 512
_FOREVER = 2**62
_graph = tf.autograph.experimental.do_not_convert  # nothing here is Python control flow over tensors; halves the start


def pretraining_dataset(
    source,
    tokenizer,
    *,
    batch_size,
    sequence_length=128,
    max_predictions=20,
    seed=0,
    start_step=0,
    epochs=None,
    evaluation=False,
    batches=None,
    held_out=0.01,
    next_sentence=True,
    short_sequence_rate=0.1,
    random_next_rate=0.5,
    mask_rate=0.15,
    mask_token_rate=0.8,
    keep_rate=0.1,
    random_token_rate=0.1,
    whole_word=False,
    entity_ids=None,
    format="auto",
    language="en",
    pool_sentences=POOL_SENTENCES,
):
    """The batches of BERT's pre-training, from a corpus of text or from records.

    Each epoch visits every document once, with new pairs and new masks, in a new order: of the files of text or the
    shards of records, and of the instances within a pool (a shard, or `pool_sentences` sentences of text).

    Args:
        source: records directory, or path(s) or glob pattern(s) of text (`kbert.corpus.documents.read_documents`).
        tokenizer: `kbert.BertTokenizer`; for records the one they were made with (`Records(directory).tokenizer()`).
        batch_size: B, over all replicas.
        sequence_length: S.
        max_predictions: P, the maximum number of masks in a row; the original uses 80 for 512 tokens.
        seed: decides everything that is random; unused with `evaluation`.
        start_step: number of batches to skip. From records by counting pairs, about 100 million tokens a second; text
            is read and tokenised again, but not packed and masked.
        epochs: how often each document is visited; None: infinitely often. Rows of the last epoch that do not fill a
            batch are dropped.
        evaluation: whether to give the held-out documents instead of the others: once, in order, always with the same
            pairs and masks, built immediately and kept in memory. Rows that fill up the last batch have weight 0.
        batches: the maximum number of batches.
        held_out: share of the documents of a text corpus that are for evaluation only, chosen by their text. Records
            have their own.
        next_sentence: False: single segments of text and no `nsp_logits`, for a `BertPretrainer` without it.
        short_sequence_rate, random_next_rate: see `kbert.pretraining.pairs.sentence_pairs`.
        mask_rate, mask_token_rate, keep_rate, random_token_rate, whole_word: see `TokenMasking`.
        entity_ids: function from the token ids of sentences (ragged [n, None]) to int32 ids of the same shape (0 = no
            entity), run in graph: an entity is masked as a whole.
        format, language: of a text corpus.
        pool_sentences: how many sentences of text are held in memory, to draw random next sentences from and to
            shuffle.

    Returns:
        tf.data.Dataset of (inputs, labels, sample_weight) with static shapes. inputs: `token_ids`, `segment_ids`
        int32 and `padding_mask` bool [B, S], `mask_positions` int32 [B, P]; labels: `mlm_logits` int32 [B, P],
        `nsp_logits` int32 [B], 0 = IsNext; sample_weight: `mlm_logits` float32 [B, P], `nsp_logits` float32 [B].

    Raises:
        ValueError: before any long work: no or empty files, damaged records or records of another vocabulary, a
            sequence length that is too short, no held-out documents. Damage found later ends the iteration with a
            `tf.errors.OpError`, which `kbert.corpus.reading_errors` turns into a ValueError that names the file.

    Source: Devlin et al. 2018, sections 3.1 and A.2; google-research/bert create_pretraining_data.py.

    Example::

        dataset = pretraining_dataset("corpus/*.txt", tokenizer, batch_size=32)
        model.fit(dataset, steps_per_epoch=1000)
    """
    counts = {"batch_size": (batch_size, 1), "start_step": (start_step, 0), "pool_sentences": (pool_sentences, 1)}
    counts |= {"epochs": (epochs, 1), "batches": (batches, 1)}
    for name, (value, least) in counts.items():
        if value is not None and value < least:
            raise ValueError(f"`{name}` must be at least {least}. Received: {value!r}")
    for name, value in (("short_sequence_rate", short_sequence_rate), ("random_next_rate", random_next_rate)):
        if not 0 <= value <= 1:
            raise ValueError(f"`{name}` must be in [0, 1]. Received: {value!r}")
    special = 3 if next_sentence else 2
    if sequence_length < special + 2:
        raise ValueError(f"`sequence_length` must be at least {special + 2} here. Received: {sequence_length}")
    rates = {"mask_rate": mask_rate, "mask_token_rate": mask_token_rate}
    rates |= {"keep_rate": keep_rate, "random_token_rate": random_token_rate}
    masking = TokenMasking(tokenizer, max_predictions, whole_word=whole_word, **rates)
    if evaluation:
        seed, epochs = _EVALUATION_SEED, 1
    pairing = (sequence_length - special, short_sequence_rate, random_next_rate, next_sentence)
    rows_before = start_step * batch_size
    if isinstance(source, str | os.PathLike) and is_records(source):
        records = Records(source)
        records.check_tokenizer(tokenizer)
        pools, rows_before = _record_pools(records, seed, epochs, evaluation, pairing, rows_before)
    else:
        documents = text_documents(source, format, language, seed, epochs, evaluation, held_out)
        pools = text_pools(documents, tokenizer, pool_sentences).map(_graph(lambda epoch, _, pool: (epoch, pool)))

    packing = {name: getattr(tokenizer, name) for name in ("cls_id", "sep_id", "pad_id")}
    packing["sequence_length"] = sequence_length

    def draw(epoch, pool):
        table = sentence_pairs(pool, seed, epoch, *pairing)
        if not evaluation:
            first = tf.reduce_sum(pool.document_ids[:1])  # 0 for an empty pool
            order = permutation(fold_in(seed, _ROWS, epoch, first), tf.size(table.keys))
            table = PairTable(*(tf.gather(column, order) for column in table))
        return _token_columns(pool, entity_ids), table

    dataset = (
        pools.map(_graph(draw), num_parallel_calls=2, deterministic=True)
        .scan(tf.constant(rows_before, tf.int64), _graph(_skip))
        .prefetch(1)
        .flat_map(_graph(lambda *pool: _packed_rows(*pool, next_sentence, packing)))
        .map(_graph(lambda *rows: _masked(masking, *rows, next_sentence)), num_parallel_calls=2, deterministic=True)
        .rebatch(batch_size, drop_remainder=not evaluation)
    )
    if evaluation:
        dataset = dataset.map(_graph(lambda *batch: _filled(batch, batch_size)))
    if batches is not None:
        dataset = dataset.take(batches)
    if evaluation:
        dataset = dataset.cache()
        with reading_errors():
            count = sum(1 for _ in dataset)
        dataset = with_known_length(dataset, count)
    return _with_options(dataset).prefetch(tf.data.AUTOTUNE)


def text_documents(source, format, language, seed, epochs, evaluation, held_out):
    """A function that starts an iterator over (epoch, number, sentences) of the training or held-out documents.

    Args:
        source, format, language, seed, epochs, evaluation, held_out: as of `pretraining_dataset`.

    Raises:
        ValueError: no or empty files, an invalid share, no document for training or evaluation.
    """
    files = find_files(source)
    if not 0 <= held_out < 1:
        raise ValueError(f"`held_out` must be in [0, 1). Received: {held_out!r}")
    if evaluation and not held_out:
        raise ValueError("Evaluation needs held-out documents. Received: held_out=0")
    count = 0
    for document in iterate_documents(files, format, language):
        count += 1
        if is_held_out(document, held_out) == evaluation:
            break
    else:
        kind, advice = ("held out", _larger_share(count)) if evaluation else ("for training", "a smaller share")
        raise ValueError(f"None of {count:,} documents is {kind} at held_out={held_out}. Give {advice}.")

    def order(epoch):
        # Not NumPy's generator: its streams may change with its version.
        key = {file: hashlib.blake2b(f"{seed}/{epoch}/{i}".encode()).digest() for i, file in enumerate(files)}
        return files if evaluation else sorted(files, key=key.get)

    def documents():
        for epoch in itertools.count() if epochs is None else range(epochs):
            for number, sentences in enumerate(iterate_documents(order(epoch), format, language)):
                if is_held_out(sentences, held_out) == evaluation:
                    yield epoch, number, sentences

    return documents


def _record_pools(records, seed, epochs, evaluation, pairing, rows_before):
    """Dataset of (epoch, pool) from the pool that row `rows_before` is in; how many rows of it come before that one."""
    shards = len(records.held_out if evaluation else records.training)
    if not shards:
        count = records.manifest["counts"]["documents"]
        kind, advice = ("held-out", _larger_share(count)) if evaluation else ("training", "a smaller share")
        raise ValueError(
            f"{records.directory}: none of its {count:,} documents is a {kind} document at a share of "
            f"{records.manifest['settings']['held_out']}. Prepare the records again with {advice} held out."
        )

    def epoch_and_shard(position):
        epoch, number = position // shards, tf.cast(position % shards, tf.int32)
        return epoch, number if evaluation else permutation(fold_in(seed, _SHARDS, epoch), shards)[number]

    def count(position):
        epoch, shard = epoch_and_shard(position)
        return count_pairs(records.index(shard, evaluation), seed, epoch, *pairing)

    first, last = 0, shards * epochs if epochs is not None else _FOREVER
    if rows_before:
        counts = tf.data.Dataset.range(last).map(_graph(count), num_parallel_calls=2, deterministic=True)
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

    return positions.map(_graph(load), num_parallel_calls=2, deterministic=True), rows_before


def _larger_share(documents):
    return f"a larger share, such as {sufficient_share(documents)}"


def _token_columns(pool, entity_ids):
    """The columns of a pool with one value per token: token ids and, if given, entity ids."""
    if entity_ids is None:
        return {"token_ids": pool.token_ids}
    sentences = tf.RaggedTensor.from_row_lengths(tf.cast(pool.token_ids, tf.int32), pool.sentence_lengths)
    return {"token_ids": pool.token_ids, "entity_ids": tf.cast(entity_ids(sentences).flat_values, tf.int32)}


def _skip(remaining, element):
    """Skips the first `remaining` rows of all pools."""
    values, table = element
    skipped = tf.minimum(remaining, tf.size(table.keys, tf.int64))
    return remaining - skipped, (skipped, values, table)


def _packed_rows(skipped, values, table, next_sentence, packing):
    """Dataset of (batch, is random, keys), r rows at a time, of a pool's pairs after the first `skipped`."""

    def pack(first):
        part = PairTable(*(column[first : first + _ROWS_AT_ONCE] for column in table))
        ranges = part[:4] if next_sentence else part[:2]
        batch = pack_ranges(values["token_ids"], *ranges, **packing)
        if "entity_ids" in values:
            zeros = {"cls_id": 0, "sep_id": 0, "pad_id": 0, "sequence_length": packing["sequence_length"]}
            batch["entity_ids"] = pack_ranges(values["entity_ids"], *ranges, **zeros)["token_ids"]
        return batch, part.is_random, part.keys

    return tf.data.Dataset.range(skipped, tf.size(table.keys, tf.int64), _ROWS_AT_ONCE).map(_graph(pack))


def _masked(masking, batch, is_random, keys, next_sentence):
    entity_ids = batch.pop("entity_ids", None)
    inputs, mask_ids, mask_weights = masking.call(batch, keys=keys, entity_ids=entity_ids)
    labels, weights = {"mlm_logits": mask_ids}, {"mlm_logits": mask_weights}
    if next_sentence:
        labels["nsp_logits"] = tf.cast(is_random, tf.int32)
        weights["nsp_logits"] = tf.ones_like(is_random, tf.float32)
    return inputs, labels, weights


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


def _with_options(dataset):
    options = tf.data.Options()
    options.deterministic = True
    # Every worker makes the whole batch and takes its part, because batches cannot be divided by files.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)
