"""Requests that a server answers to itself before it takes others: assets.extra/tf_serving_warmup_requests."""

import os

import numpy as np

from kbert.serving.batching import BATCH_SIZES
from kbert.serving.messages import encode_example, example_request, predict_request, prediction_log, read_prediction_log

MAX_RECORDS = 1000  # of a server


def write_warmup(path, signatures):
    """Writes a record for each signature and each batch size of `BATCH_SIZES`.

    The first request in a graph is many times as slow as the second; a server that has answered these is warm when it
    takes its first real one. Rows are the examples in turn, short and long ones.

    Args:
        path: pathlib.Path of the file.
        signatures: dict of name → `kbert.serving.signatures.ServingSignature`.
    """
    import tensorflow as tf

    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, signature in signatures.items():
            for size in BATCH_SIZES:
                writer.write(prediction_log(signature.kind, _request(name, signature, size)))


def _request(name, signature, size):
    rows = [signature.examples[i % len(signature.examples)] for i in range(size)]
    if signature.kind == "predict":
        columns = {key: np.array([row[key] for row in rows], dtype=object) for key in rows[0]}
        return predict_request(name, columns)
    return example_request(name, rows)


def read_warmup(path):
    """(kind, signature name, inputs) of each record: see `kbert.serving.messages.read_prediction_log`.

    Raises:
        ValueError: a damaged file, or records that are no PredictionLog.
    """
    import tensorflow as tf

    try:
        records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    except tf.errors.DataLossError as error:
        raise ValueError(f"expected a TFRecord file. Received: {error.message}") from error
    size = os.path.getsize(path)
    if size and not records:  # TensorFlow takes a file shorter than a record's header for one without records
        raise ValueError(f"expected a TFRecord file. Received: {size} bytes without a record")
    return [read_prediction_log(record) for record in records]


def fed(kind, inputs):
    """The inputs of a record as the signature's function takes them: dict of name → array of strings."""
    return inputs if kind == "predict" else {"inputs": np.array(inputs, dtype=object)}


__all__ = ["MAX_RECORDS", "encode_example", "fed", "read_warmup", "write_warmup"]
