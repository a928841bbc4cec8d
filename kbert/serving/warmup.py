"""What a server reads beside the graph: the kinds of signatures, batching parameters, warm-up requests."""

import pathlib
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from kbert.serving.signatures import ServingSignature


def set_methods(directory: pathlib.Path, methods: dict[str, str]) -> None:
    """Sets method names of signatures, which TensorFlow 2 always calls ``…/predict``."""
    path = directory / "saved_model.pb"
    content = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for name, method in methods.items():
        content.meta_graphs[0].signature_def[name].method_name = method
    path.write_bytes(content.SerializeToString(deterministic=True))
    # It belongs to the unchanged file; no loader needs one.
    (directory / "fingerprint.pb").unlink(missing_ok=True)


BATCH_SIZES = (1, 2, 4, 8, 16, 32)
_ALLOWED = "\n".join(f"allowed_batch_sizes: {size}" for size in BATCH_SIZES)
BATCHING = f"""\
# tensorflow_model_server --enable_batching --enable_per_model_batching_parameters reads this file;
# with --batching_parameters_file=FILE a server takes another one for all its models.
# docs/deployment.md says how to choose.
max_batch_size {{ value: {BATCH_SIZES[-1]} }}
batch_timeout_micros {{ value: 2000 }}
max_enqueued_batches {{ value: 100 }}
{_ALLOWED}
"""


def write_warmup(path: pathlib.Path, served: dict[str, ServingSignature]) -> None:
    """Writes a record for each signature and each of the `BATCH_SIZES` that its limits allow.

    The first request to a graph takes many times as long as the second, so a server runs these records first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    batches = {}  # names that share a signature share its batches
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, signature in served.items():
            if id(signature) not in batches:
                batches[id(signature)] = _allowed_batches(signature)
            for rows in batches[id(signature)]:
                writer.write(warmup_record(signature.kind, name, rows))


def warmup_record(kind: str, signature: str, rows: list[dict[str, Any]]) -> bytes:
    """A serialised PredictionLog with one request; rows map columns to strings or lists."""
    log = prediction_log_pb2.PredictionLog()
    if kind == "predict":
        request = log.predict_log.request
        for name in rows[0]:
            request.inputs[name].CopyFrom(tf.make_tensor_proto([row[name] for row in rows]))
    else:
        request = log.classify_log.request if kind == "classify" else log.regress_log.request
        for row in rows:
            request.input.example_list.examples.add().ParseFromString(encode_example(row))
    request.model_spec.name = "default"
    request.model_spec.signature_name = signature
    return log.SerializeToString(deterministic=True)


def encode_example(row: dict[str, str | bytes]) -> bytes:
    """A serialised tf.Example whose features are strings."""
    example = tf.train.Example()
    for name, value in row.items():
        example.features.feature[name].bytes_list.value.append(tf.compat.as_bytes(value))
    return example.SerializeToString(deterministic=True)


def _allowed_batches(signature: ServingSignature) -> list[list[dict[str, Any]]]:
    """The rows of each request within the limits; a batch is the beginning of every larger one."""
    batches = []
    sizes = list(BATCH_SIZES)
    for examples in (signature.examples, signature.examples[:1]):
        allowed = sizes.copy()
        while allowed and not _is_allowed(signature, _repeated(examples, allowed[-1])):
            allowed.pop()
        batches += [_repeated(examples, size) for size in allowed]
        sizes = sizes[len(allowed) :]
    if not batches:
        raise ValueError(f"export: the limits on requests do not allow this one: {signature.examples[0]}")
    return batches


def _repeated(examples: list, size: int) -> list:
    return [examples[i % len(examples)] for i in range(size)]


def _is_allowed(signature: ServingSignature, rows: list[dict[str, Any]]) -> bool:
    if signature.kind == "predict":
        columns = {name: [row[name] for row in rows] for name in signature.inputs}
    else:
        columns = {"inputs": [encode_example(row) for row in rows]}
    try:
        signature.preprocess(*(tf.constant(column, tf.string) for column in columns.values()))
    except tf.errors.InvalidArgumentError:
        return False
    return True
