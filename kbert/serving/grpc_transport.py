"""TensorFlow Serving's gRPC interface, with TensorBoard's copy of TensorFlow's tensors.

The classes of tensorflow-serving-api import TensorFlow: 5 s and 790 MB for a client that takes 0.3 s and 60 MB without
them. So the few that a client needs are made from the table below.

Shapes: B rows, C choices.

Source: tensorflow_serving/apis/*.proto, tensorflow_serving/servables/tensorflow/session_bundle_config.proto,
tensorflow/core/example/*.proto.
"""

import itertools
import math
import pathlib
from typing import Any

import grpc
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from tensorboard.compat.proto import tensor_pb2, types_pb2

from kbert.options import PathLike
from kbert.serving.rest_transport import MAX_MESSAGE, NO_SERVER, ServedModel, ServingError, one_line

_SERVICE = "/tensorflow.serving.PredictionService/"


class GrpcTransport:
    """Calls of a PredictionService (its .proto file); `timeout` is for the whole answer to a call."""

    def __init__(
        self,
        model: ServedModel,
        timeout: float,
        root_certificates: PathLike | None,
        client_certificate: tuple[PathLike, PathLike] | None,
    ) -> None:
        self.model = model
        self.timeout = timeout
        scheme, _, address = model.url.partition("://")
        options = [(f"grpc.max_{way}_message_length", MAX_MESSAGE) for way in ("receive", "send")]
        if scheme == "grpc":
            self._channel = grpc.insecure_channel(address, options)
        else:
            certificate, key = client_certificate or (None, None)
            files = [file and pathlib.Path(file).read_bytes() for file in (root_certificates, key, certificate)]
            credentials = grpc.ssl_channel_credentials(*files)
            self._channel = grpc.secure_channel(address, credentials, options)

    def call(self, verb: str, signature: str, rows: dict[str, list] | list[dict]) -> Any:
        """What the server answers to a request, as `RestTransport.call` returns it."""
        make_request = predict_request if verb == "predict" else example_request
        send = self._channel.unary_unary(_SERVICE + verb.capitalize(), lambda message: message.SerializeToString())
        try:
            answer = send(make_request(self.model, signature, rows), timeout=self.timeout)
        except grpc.RpcError as error:
            raise self._serving_error(error, signature) from None
        try:
            return _read_answer(verb, answer)
        except (DecodeError, ValueError) as error:
            raise ServingError(f"{self.model.url}: expected a message of TensorFlow Serving: {error}") from None

    def _serving_error(self, error: grpc.RpcError, signature: str) -> ServingError:
        code = error.code()
        url = self.model.url
        details = one_line(error.details() or "no reason given")
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return ServingError(f"{url} did not answer within {self.timeout:g} s")
        if code == grpc.StatusCode.UNAVAILABLE:
            return ServingError(f"{url} cannot be reached: {details}. {NO_SERVER}", may_retry=True)
        message = f"{url} answered {code.name}: {details} (signature {signature!r})"
        may_retry = code == grpc.StatusCode.RESOURCE_EXHAUSTED and "message larger than max" not in details
        return ServingError(message, may_retry)


def predict_request(model: ServedModel, signature: str, inputs: dict[str, list]) -> Message:
    """PredictRequest of string columns, [B] or [B, C]."""
    request = MESSAGES["PredictRequest"](model_spec=_model_spec(model, signature))
    for name, column in inputs.items():
        array = np.array(column, dtype=object)
        tensor = request.inputs.add(key=name).value
        tensor.dtype = types_pb2.DT_STRING
        for size in array.shape:
            tensor.tensor_shape.dim.add(size=size)
        tensor.string_val.extend(map(_bytes, array.ravel().tolist()))
    return request


def example_request(model: ServedModel, signature: str, examples: list[dict]) -> Message:
    """ClassificationRequest and RegressionRequest, which have equal fields."""
    request = MESSAGES["ExampleRequest"](model_spec=_model_spec(model, signature))
    for columns in examples:
        example = request.input.example_list.examples.add()
        for name, value in columns.items():
            feature = example.features.feature.add(key=name).value
            feature.bytes_list.value.append(_bytes(value))
    return request


def _read_answer(verb: str, answer: bytes) -> Any:
    response = MESSAGES[verb].FromString(answer)
    if verb == "regress":
        return [row.value for row in response.result.regressions]
    if verb == "classify":
        rows = response.result.classifications
        return [[(_plain(entry.label), entry.score) for entry in row.classes] for row in rows]
    arrays = tensors_to_arrays({entry.key: entry.value for entry in response.outputs})
    return {name: _plain(array.tolist()) if array.dtype == object else array.tolist() for name, array in arrays.items()}


# DataType → the layout of tensor_content, the field of single values: those that answers have.
_TYPES = {
    types_pb2.DT_STRING: (object, "string_val"),
    types_pb2.DT_FLOAT: ("<f4", "float_val"),
    types_pb2.DT_DOUBLE: ("<f8", "double_val"),
    types_pb2.DT_INT32: ("<i4", "int_val"),
    types_pb2.DT_INT64: ("<i8", "int64_val"),
    types_pb2.DT_BOOL: ("?", "bool_val"),
}
# Values, or rows without values, that even a short answer may stand for.
_LEAST_VALUES = 2**12


def tensors_to_arrays(tensors: dict[str, tensor_pb2.TensorProto]) -> dict[str, np.ndarray]:
    """TensorProtos by name → arrays; strings are bytes."""
    shapes = {name: [dim.size for dim in tensors[name].tensor_shape.dim] for name in tensors}
    rows = [itertools.takewhile(bool, shape) for shape in shapes.values()]  # empty ones count too
    entries = sum(abs(math.prod(sizes)) for sizes in rows)
    size = sum(tensor.ByteSize() for tensor in tensors.values())
    if entries > max(size, _LEAST_VALUES):
        raise ValueError(f"expected at most as many values as bytes. Received: shapes {shapes!s:.200}, {size} bytes")
    return {name: _array(tensors[name]) for name in sorted(tensors)}


def _array(tensor: tensor_pb2.TensorProto) -> np.ndarray:
    # TensorBoard's `make_ndarray` is not used: it takes three times as long for a list of floats.
    if tensor.dtype not in _TYPES:
        raise ValueError(f"expected a tensor of strings, floats, integers or bools. Received: DataType {tensor.dtype}")
    layout, field = _TYPES[tensor.dtype]
    if tensor.tensor_content:
        values = np.frombuffer(tensor.tensor_content, layout)
    else:
        values = np.array(getattr(tensor, field), layout)
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    size = math.prod(shape)
    if 0 < len(values) < size:  # the last value is repeated
        values = np.concatenate([values, np.repeat(values[-1:], size - len(values))])
    if len(values) != size:
        raise ValueError(f"expected {size} values, for shape {shape}. Received: {len(values)}")
    return values.reshape(shape)


def _model_spec(model: ServedModel, signature: str) -> Message:
    version = None if model.version is None else {"value": model.version}
    return MESSAGES["ModelSpec"](name=model.name, signature_name=signature, version=version, version_label=model.label)


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    """Values as REST returns them: str in place of bytes, in lists too."""
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


# message → field → (number, type). Labels are bytes, since they need not be UTF-8. A map of the
# .proto files is the same in bytes as entries of key and value. Verbs stand for their answers.
_FIELDS = {
    "BytesList": {"value": (1, "repeated bytes")},
    "Feature": {"bytes_list": (1, "BytesList")},
    "FeatureEntry": {"key": (1, "string"), "value": (2, "Feature")},
    "Features": {"feature": (1, "repeated FeatureEntry")},
    "Example": {"features": (1, "Features")},
    "Int64Value": {"value": (1, "int64")},
    "ModelSpec": {
        "name": (1, "string"),
        "version": (2, "Int64Value"),
        "signature_name": (3, "string"),
        "version_label": (4, "string"),
    },
    "TensorEntry": {"key": (1, "string"), "value": (2, "Tensor")},
    "PredictRequest": {"model_spec": (1, "ModelSpec"), "inputs": (2, "repeated TensorEntry")},
    "predict": {"outputs": (1, "repeated TensorEntry")},
    "ExampleList": {"examples": (1, "repeated Example")},
    "Input": {"example_list": (1, "ExampleList")},
    "ExampleRequest": {"model_spec": (1, "ModelSpec"), "input": (2, "Input")},
    "Class": {"label": (1, "bytes"), "score": (2, "float")},
    "Classifications": {"classes": (1, "repeated Class")},
    "ClassificationResult": {"classifications": (1, "repeated Classifications")},
    "classify": {"result": (1, "ClassificationResult")},
    "Regression": {"value": (1, "float")},
    "RegressionResult": {"regressions": (1, "repeated Regression")},
    "regress": {"result": (1, "RegressionResult")},
    "StringValue": {"value": (1, "string")},
    "BoolValue": {"value": (1, "bool")},
    "BatchingParameters": {  # of no request, but of an export's file, which `kbert.audit` reads
        "max_batch_size": (1, "Int64Value"),
        "batch_timeout_micros": (2, "Int64Value"),
        "max_enqueued_batches": (3, "Int64Value"),
        "num_batch_threads": (4, "Int64Value"),
        "thread_pool_name": (5, "StringValue"),
        "allowed_batch_sizes": (6, "repeated int64"),
        "pad_variable_length_inputs": (7, "bool"),
        "enable_large_batch_splitting": (8, "BoolValue"),
        "max_execution_batch_size": (9, "Int64Value"),
    },
}


def _make_messages() -> dict[str, type[Message]]:
    package = "kbert.serving"
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="kbert/serving.proto", package=package, syntax="proto3", dependency=[tensor_pb2.DESCRIPTOR.name]
    )

    for message_name, fields in _FIELDS.items():
        message = file.message_type.add(name=message_name)
        for name, (number, kind) in fields.items():
            rule, _, kind = kind.rpartition(" ")
            field = message.field.add(name=name, number=number)
            field.label = types.LABEL_REPEATED if rule else types.LABEL_OPTIONAL
            if kind == "Tensor":
                field.type_name = f".{tensor_pb2.TensorProto.DESCRIPTOR.full_name}"
            elif kind[0].isupper():
                field.type_name = f".{package}.{kind}"
            else:
                field.type = types.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in _FIELDS}


MESSAGES = _make_messages()
