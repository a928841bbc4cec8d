"""TFRecords with the features of google-research/bert's create_pretraining_data.py, read and written.

Each record is a `tf.train.Example` of one row, padded and masked. The names of its features are on the left:

    input_ids, input_mask, segment_ids       int64 [S]   token_ids, padding_mask, segment_ids
    masked_lm_positions, masked_lm_ids       int64 [P]   mask_positions, mlm_logits
    masked_lm_weights                        float [P]   the weights of mlm_logits
    next_sentence_labels                     int64 [1]   nsp_logits, 0 = IsNext

Shapes: B batch, S sequence, P predictions, r rows of a pool.
"""

import contextlib
import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from kbert.corpus.corpus_files import find_files
from kbert.corpus.pool import pools_at_once
from kbert.files import atomic_file
from kbert.stateless_random import fold_in, permutation, uniform
from kbert.text.tokenizer import BertTokenizer

_POOL = 4096  # rows that are shuffled at once
_ORDER, _HELD_OUT = 6, 7  # keep these draws independent of other uses of the same seed
_graph = tf.autograph.experimental.do_not_convert


def stored_predictions(source: str | os.PathLike | Sequence[str | os.PathLike]) -> int:
    """The maximum number of predictions in each row of the files."""
    return _lengths_of(find_files(source, are_texts=False))[1][1]


def check_tfrecords(
    source: str | os.PathLike | Sequence[str | os.PathLike],
    held_out: float | None = None,
    lengths: tuple[int, int] | None = None,
    evaluation: bool | None = None,
) -> None:
    """Raises ValueError, with the file's name, unless there are rows to learn from.

    One row of each file is looked at; files without a row do not count.
    """
    files = find_files(source, are_texts=False)
    first, stored = _lengths_of(files)
    if lengths not in (None, stored):
        raise ValueError(
            f"{first} has rows of sequence_length={stored[0]} and max_predictions={stored[1]}. Give these. "
            f"Received: {lengths[0]} and {lengths[1]}"
        )
    if held_out is None:
        return
    for kind in (True, False) if evaluation is None else (evaluation,):
        for _, _, records in _raw_pools(files, 0, 1, kind):
            if np.any(_is_held_out(_parse(records, *stored), held_out).numpy() == kind):
                break
        else:
            name = "held out" if kind else "for training"
            raise ValueError(f"{source}: none of the rows is {name} at held_out={held_out}. Give another fraction.")


def tfrecord_rows(
    source: str | os.PathLike | Sequence[str | os.PathLike],
    tokenizer: BertTokenizer,
    *,
    sequence_length: int,
    max_predictions: int,
    seed: int,
    epochs: int | None,
    evaluation: bool,
    held_out: float,
    next_sentence: bool,
) -> tf.data.Dataset:
    """The rows of files of records, as `pretraining_dataset` has them before batching.

    Files are visited in an order of their own in each epoch, and the rows of a file are shuffled in pools of 4096. A
    row is held out by a hash of its text: the same text with other masks is held out, too.
    """
    files = find_files(source, are_texts=False)
    lengths = (sequence_length, max_predictions)
    specification = (tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.string))
    pools = tf.data.Dataset.from_generator(
        lambda: _raw_pools(files, seed, epochs, evaluation), output_signature=specification
    )
    vocabulary_size = tokenizer.vocabulary_size  # not `tokenizer` in `check`: TensorFlow keeps such functions for good

    def check(file, *columns):
        _check_values(files[file], *columns, vocabulary_size, sequence_length)
        return np.int32(0)

    def read(file, key, records):
        rows = _parse(records, *lengths)
        columns = [rows[name] for name in ("input_ids", "masked_lm_ids", "segment_ids", "masked_lm_positions")]
        with tf.control_dependencies([tf.numpy_function(check, [file, *columns], tf.int32)]):
            chosen = tf.where(_is_held_out(rows, held_out) == evaluation)[:, 0]
        if not evaluation:
            chosen = tf.gather(chosen, permutation(fold_in(seed, _ORDER, key), tf.size(chosen)))
        return _as_batch({name: tf.gather(column, chosen) for name, column in rows.items()}, next_sentence)

    row_bytes = 8 * (3 * sequence_length + 4 * max_predictions)
    return pools.map(_graph(read), num_parallel_calls=pools_at_once(_POOL * row_bytes), deterministic=True).unbatch()


def tfrecord_token_ids(
    source: str | os.PathLike | Sequence[str | os.PathLike], held_out: float
) -> Iterator[np.ndarray]:
    """Yields the token ids of pools of rows for training, with their masks undone, [r, S]."""
    files = find_files(source, are_texts=False)
    _, lengths = _lengths_of(files)
    for _, _, records in _raw_pools(files, 0, 1, True):
        rows = _parse(records, *lengths)
        yield _originals(rows).numpy()[~_is_held_out(rows, held_out).numpy()]


def write_tfrecords(batches: Iterable[tuple], paths: str | os.PathLike | Iterable[str | os.PathLike]) -> int:
    """Writes batches as the files of create_pretraining_data.py, for google-research/bert and what reads as it.

    Args:
        batches: of `kbert.pretraining.pretraining_dataset`, a finite number of batches (`epochs`,
            `batches` or `take`), not packed and with next sentences.
        paths: path of a file, or a list of them, which take the rows in turn. They appear when all are complete.

    Returns:
        The number of rows; those that only fill up the last batch of held-out data are not written.

    Raises:
        ValueError: batches of packed rows, or without next sentences.

    Source: google-research/bert, create_pretraining_data.py, `write_instance_to_example_files`.

    Example::

        batches = pretraining_dataset("corpus/*.txt", tokenizer, batch_size=32, epochs=10)
        write_tfrecords(batches, "tf_examples.tfrecord")
    """
    paths = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    number = 0
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(atomic_file(path, "wb")) for path in paths]
        writers = [stack.enter_context(tf.io.TFRecordWriter(file.name)) for file in files]
        turn = itertools.cycle(writers)
        for inputs, labels, weights in batches:
            if "nsp_logits" not in labels or "part_ids" in inputs:
                raise ValueError(
                    "write_tfrecords: expected plain rows with next sentences, which these records have. Received: "
                    f"inputs {sorted(inputs)} and labels {sorted(labels)}. Make them with packed=False and "
                    "next_sentence=True"
                )
            features = {
                "input_ids": inputs["token_ids"],
                "input_mask": inputs["padding_mask"],
                "segment_ids": inputs["segment_ids"],
                "masked_lm_positions": inputs["mask_positions"],
                "masked_lm_ids": labels["mlm_logits"],
                "masked_lm_weights": weights["mlm_logits"],
                "next_sentence_labels": labels["nsp_logits"],
            }
            columns = {name: np.asarray(column) for name, column in features.items()}
            for row in np.flatnonzero(np.asarray(weights["nsp_logits"])):
                next(turn).write(_example(columns, row).SerializeToString())
                number += 1
    return number


def _example(columns, row):
    def feature(values):
        values = np.atleast_1d(values)
        if values.dtype.kind == "f":
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values.astype(np.int64)))

    features = {name: feature(column[row]) for name, column in columns.items()}
    return tf.train.Example(features=tf.train.Features(feature=features))


def _file_order(files: Sequence[str], seed: int, epoch: int) -> list[str]:
    """The files of an epoch in the order of the seed."""
    # Not NumPy's generator: its streams may change with its version.
    key = {file: hashlib.blake2b(f"{seed}/{epoch}/{i}".encode()).digest() for i, file in enumerate(files)}
    return sorted(files, key=key.get)


def _raw_pools(files, seed, epochs, evaluation):
    """Yields (number of the file, key of the pool's order, serialised records) in the order of the seed."""
    keys = itertools.count()
    for epoch in itertools.count() if epochs is None else range(epochs):
        for file in files if evaluation else _file_order(files, seed, epoch):
            with _naming_damage(file):
                for records in tf.data.TFRecordDataset(file).batch(_POOL).as_numpy_iterator():
                    yield files.index(file), next(keys), records


def _first_records(files):
    """Yields (file, [its first record, serialised], empty if it has none), without an iterator for each file."""
    none = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))

    def first(file):
        return tf.data.TFRecordDataset(file).batch(1).concatenate(none).take(1)

    records = tf.data.Dataset.from_tensor_slices(files).flat_map(_graph(first)).as_numpy_iterator()
    for file in files:
        with _naming_damage(file):
            yield file, next(records)


@contextlib.contextmanager
def _naming_damage(file):
    try:
        yield
    except tf.errors.DataLossError as error:
        raise ValueError(f"{file} is damaged ({error.message.splitlines()[0]}). Write it again.") from None


def _features(sequence_length, max_predictions):
    names = ("input_ids", "input_mask", "segment_ids")
    of_tokens = {name: tf.io.FixedLenFeature([sequence_length], tf.int64) for name in names}
    of_masks = {
        "masked_lm_positions": tf.io.FixedLenFeature([max_predictions], tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature([max_predictions], tf.int64),
        "masked_lm_weights": tf.io.FixedLenFeature([max_predictions], tf.float32),
    }
    return of_tokens | of_masks | {"next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64)}


def _lengths_of(files):
    """The first file with a row, and (sequence length, maximum number of predictions) of the first row of each."""
    lengths = {file: _row_lengths(file, record) for file, records in _first_records(files) for record in records}
    if not lengths:
        raise ValueError(f"{files[0]} has no records.")
    first, expected = next(iter(lengths.items()))
    for file, stored in lengths.items():
        if stored != expected:
            raise ValueError(
                f"{file}: expected rows of sequence_length={expected[0]} and max_predictions={expected[1]}, as {first} "
                f"has. Received: {stored[0]} and {stored[1]}. Give files of the same lengths."
            )
    return first, expected


def _row_lengths(file, record):
    expected = f"{file}: expected records of create_pretraining_data.py, with the features {sorted(_features(1, 1))}"
    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        raise ValueError(f"{expected}. Received: a record that is no tf.train.Example") from None
    sizes = {name: len(features[name].int64_list.value) for name in _features(1, 1) if name != "masked_lm_weights"}
    if missing := [name for name, size in sizes.items() if not size]:
        raise ValueError(f"{expected}. Received: a record without {', '.join(missing)}")
    return sizes["input_ids"], sizes["masked_lm_ids"]


def _parse(records, sequence_length, max_predictions):
    rows = tf.io.parse_example(records, _features(sequence_length, max_predictions))
    return {name: tf.cast(column, tf.int32) if column.dtype == tf.int64 else column for name, column in rows.items()}


def _check_values(file, token_ids, mask_ids, segment_ids, positions, vocabulary_size, sequence_length):
    kinds = {
        "input_ids": (token_ids, vocabulary_size),
        "masked_lm_ids": (mask_ids, vocabulary_size),
        "segment_ids": (segment_ids, 2),
        "masked_lm_positions": (positions, sequence_length),
    }
    for name, (values, end) in kinds.items():
        if values.size and (values.min() < 0 or values.max() >= end):
            raise ValueError(
                f"{file}: expected {name} from 0 to {end - 1}. Received: {values.min()} to {values.max()}. "
                "Give the vocabulary that the records were made with."
            )


def _originals(rows):
    """Token ids with the masks undone, [r, S]."""
    is_mask = tf.where(rows["masked_lm_weights"] > 0)
    places = tf.stack([is_mask[:, 0], tf.gather_nd(tf.cast(rows["masked_lm_positions"], tf.int64), is_mask)], 1)
    return tf.tensor_scatter_nd_update(rows["input_ids"], places, tf.gather_nd(rows["masked_lm_ids"], is_mask))


def _is_held_out(rows, fraction):
    token_ids = _originals(rows)
    hashes = fold_in(tf.range(tf.shape(token_ids)[1], dtype=tf.int64), token_ids)
    return uniform(fold_in(tf.reduce_sum(hashes, axis=1), _HELD_OUT), 1)[:, 0] < fraction


def _as_batch(rows, next_sentence):
    inputs = {
        "token_ids": rows["input_ids"],
        "segment_ids": rows["segment_ids"],
        "padding_mask": rows["input_mask"] > 0,
        "mask_positions": rows["masked_lm_positions"],
    }
    labels = {"mlm_logits": rows["masked_lm_ids"]}
    weights = {"mlm_logits": rows["masked_lm_weights"]}
    if next_sentence:
        labels["nsp_logits"] = rows["next_sentence_labels"][:, 0]
        weights["nsp_logits"] = tf.ones_like(labels["nsp_logits"], tf.float32)
    return inputs, labels, weights
