"""Requests that a server runs before it accepts others: assets.extra/tf_serving_warmup_requests."""

import os

import numpy as np

from kbert.serving.batching import BATCH_SIZES
from kbert.serving.messages import encode_example, example_request, predict_request, prediction_log, read_prediction_log

MAX_RECORDS = 1000  # of a server


def write_warmup(path, signatures):
    """Writes a record for each signature and each batch size of `BATCH_SIZES` that its limits allow.

    The first request to a graph takes many times as long as the second; a server runs these records first. Rows are the
    examples in turn, short and long ones, or only the first, short one if long ones exceed the limits: a server does
    not load a model that refuses one of its records.

    Raises:
        ValueError: a signature whose limits do not allow a single short text.
    """
    import tensorflow as tf

    path.parent.mkdir(parents=True, exist_ok=True)
    batches = {}  # of names that share a signature once
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, signature in signatures.items():
            if id(signature) not in batches:
                batches[id(signature)] = _batches(signature)
            for rows in batches[id(signature)]:
                writer.write(prediction_log(signature.kind, _request(name, signature, rows)))


def _batches(signature):
    """The rows of each request within the signature's limits. A batch is the beginning of every larger one."""
    batches, left = [], sorted(BATCH_SIZES)
    for examples in (signature.examples, signature.examples[:1]):
        allowed = left.copy()
        while allowed and not _is_allowed(signature, _repeated(examples, allowed[-1])):
            allowed.pop()
        batches += [_repeated(examples, size) for size in allowed]
        left = left[len(allowed) :]
    if not batches:
        raise ValueError(f"export: the limits on requests do not allow this one: {signature.examples[0]}")
    return batches


def _repeated(examples, size):
    return [examples[i % len(examples)] for i in range(size)]


def _is_allowed(signature, rows):
    import tensorflow as tf

    columns = _columns(rows) if signature.kind == "predict" else {"inputs": [encode_example(row) for row in rows]}
    try:
        signature.preprocess(*(tf.constant(columns[name], tf.string) for name in signature.inputs))
    except tf.errors.InvalidArgumentError:
        return False
    return True


def _request(name, signature, rows):
    if signature.kind == "predict":
        return predict_request(name, _columns(rows))
    return example_request(name, rows)


def _columns(rows):
    return {key: np.array([row[key] for row in rows], dtype=object) for key in rows[0]}


def read_warmup(path):
    """(kind, signature name, inputs) of each record: see `kbert.serving.messages.read_prediction_log`.

    Raises:
        ValueError: a damaged file, or records that are not a PredictionLog.
    """
    import tensorflow as tf

    try:
        records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    except tf.errors.DataLossError as error:
        raise ValueError(f"expected a TFRecord file. Received: {error.message}") from error
    size = os.path.getsize(path)
    if size and not records:  # TensorFlow treats a file shorter than a record's header as one without records
        raise ValueError(f"expected a TFRecord file. Received: {size} bytes without a record")
    return [read_prediction_log(record) for record in records]
