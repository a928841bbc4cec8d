"""The messages of TensorFlow Serving that kbert writes and reads, with the protobuf library alone.

The classes are made from the table below when this module is imported. Those of tensorflow-serving-api import
TensorFlow, which a client should neither need nor wait for.

Shapes: B batch, C choices.

Source: tensorflow_serving/apis/*.proto, tensorflow/core/framework/tensor.proto, tensorflow/core/example/*.proto.
"""

import itertools
import math

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

# The largest answer that is read, in bytes; gRPC's default of 4 MB is less than one batch of token features.
MAX_MESSAGE = 256 * 2**20
KINDS = ("predict", "classify", "regress")
_STRING = 7
_LEAST = 2**12  # values, or rows without values, that a message may stand for, however short it is
# DataType → (the layout of tensor_content, the field of single values)
_TYPES = {
    1: ("<f4", "float_val"),
    2: ("<f8", "double_val"),
    3: ("<i4", "int_val"),
    9: ("<i8", "int64_val"),
    10: ("?", "bool_val"),
}

# message → field → (number, type). bytes are for what is passed on unread, and for text that need not be UTF-8.
_FIELDS = {
    "Dim": {"size": (1, "int64")},
    "Shape": {"dim": (2, "repeated Dim")},
    "Tensor": {
        "dtype": (1, "int32"),
        "tensor_shape": (2, "Shape"),
        "tensor_content": (4, "bytes"),
        "float_val": (5, "repeated float"),
        "double_val": (6, "repeated double"),
        "int_val": (7, "repeated int32"),
        "string_val": (8, "repeated bytes"),
        "int64_val": (10, "repeated int64"),
        "bool_val": (11, "repeated bool"),
    },
    "BytesList": {"value": (1, "repeated bytes")},
    "Feature": {"bytes_list": (1, "BytesList")},
    "Features": {"feature": (1, "map Feature")},
    "Example": {"features": (1, "Features")},
    "Int64Value": {"value": (1, "int64")},
    "ModelSpec": {
        "name": (1, "string"),
        "version": (2, "Int64Value"),
        "signature_name": (3, "string"),
        "version_label": (4, "string"),
    },
    "PredictRequest": {"model_spec": (1, "ModelSpec"), "inputs": (2, "map Tensor")},
    "PredictResponse": {"outputs": (1, "map Tensor")},
    "ExampleList": {"examples": (1, "repeated bytes")},
    "Input": {"example_list": (1, "ExampleList")},
    "ExampleRequest": {"model_spec": (1, "ModelSpec"), "input": (2, "Input")},  # to classify, and to regress
    "Class": {"label": (1, "bytes"), "score": (2, "float")},
    "Classifications": {"classes": (1, "repeated Class")},
    "ClassificationResult": {"classifications": (1, "repeated Classifications")},
    "ClassificationResponse": {"result": (1, "ClassificationResult")},
    "Regression": {"value": (1, "float")},
    "RegressionResult": {"regressions": (1, "repeated Regression")},
    "RegressionResponse": {"result": (1, "RegressionResult")},
    "PredictLog": {"request": (1, "PredictRequest")},
    "ExampleLog": {"request": (1, "ExampleRequest")},
    "PredictionLog": {
        "classify_log": (2, "ExampleLog"),
        "regress_log": (3, "ExampleLog"),
        "predict_log": (6, "PredictLog"),
    },
}


def _make_classes():
    """dict of message name → class; in a separate pool, so that they do not clash with TensorFlow's."""
    package, kinds = "kbert.serving", descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="kbert/serving.proto", package=package, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            rule, _, kind = kind.rpartition(" ")
            if rule == "map":  # an entry message of key and value, repeated
                entry = message.nested_type.add(name=field.capitalize() + "Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
                value = entry.field.add(name="value", number=2, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL)
                value.type_name = f".{package}.{kind}"
                kind = f"{name}.{entry.name}"
            label = kinds.LABEL_REPEATED if rule else kinds.LABEL_OPTIONAL
            if kind[0].isupper():
                message.field.add(
                    name=field, number=number, type=kinds.TYPE_MESSAGE, label=label, type_name=f".{package}.{kind}"
                )
            else:
                message.field.add(name=field, number=number, type=getattr(kinds, f"TYPE_{kind.upper()}"), label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in _FIELDS}


_CLASSES = _make_classes()


def parse(name, data):
    """Parses bytes as a message of one of the types above."""
    try:
        return _CLASSES[name].FromString(data)
    except DecodeError as error:
        raise ValueError(f"expected a protocol buffer, {name}. Received: {bytes(data[:40])!r} ({error})") from None


def predict_request(signature, inputs, model="default", version=None, label=None):
    """PredictRequest. `inputs`: dict of name → array of strings [B] or [B, C]."""
    request = _CLASSES["PredictRequest"](model_spec=_model_spec(model, signature, version, label))
    for name, value in inputs.items():
        fill_tensor_proto(request.inputs[name], value)
    return _encode(request)


def example_request(signature, examples, model="default", version=None, label=None):
    """ClassificationRequest and RegressionRequest, which have the same fields. `examples`: dicts of name → string."""
    request = _CLASSES["ExampleRequest"](model_spec=_model_spec(model, signature, version, label))
    request.input.example_list.examples.extend(map(encode_example, examples))
    return _encode(request)


def encode_example(columns):
    """A serialised tf.Example of string features: dict of name → str or bytes."""
    example = _CLASSES["Example"]()
    for name, value in columns.items():
        example.features.feature[name].bytes_list.value.append(_bytes(value))
    return _encode(example)


def prediction_log(kind, request):
    """PredictionLog, what a warm-up file holds. `kind`: one of `KINDS`; `request`: the bytes of a request."""
    log = _CLASSES["PredictionLog"]()
    getattr(log, f"{kind}_log").request.MergeFromString(request)
    return _encode(log)


def read_prediction_log(data):
    """(kind, signature name, inputs) of a PredictionLog.

    Returns:
        kind: predict, classify or regress; inputs: dict of name → array for predict, else the list of the serialised
        tf.Examples.

    Raises:
        ValueError: another message, or another kind of log.
    """
    log = parse("PredictionLog", data)
    kinds = [kind for kind in KINDS if log.HasField(f"{kind}_log")]
    if len(kinds) != 1:
        raise ValueError(f"expected a PredictionLog with a log of {list(KINDS)}. Received: logs of {kinds}")
    request = getattr(log, f"{kinds[0]}_log").request
    signature = request.model_spec.signature_name or "serving_default"
    if kinds[0] == "predict":
        return "predict", signature, _arrays(request.inputs)
    return kinds[0], signature, list(request.input.example_list.examples)


def read_predict_response(data):
    """PredictResponse → dict of output name → array."""
    return _arrays(parse("PredictResponse", data).outputs)


def read_classification_response(data):
    """ClassificationResponse → for each example the list of (label, score)."""
    rows = parse("ClassificationResponse", data).result.classifications
    return [[(one.label.decode("utf-8", "replace"), one.score) for one in row.classes] for row in rows]


def read_regression_response(data):
    """RegressionResponse → a number for each example."""
    return [row.value for row in parse("RegressionResponse", data).result.regressions]


def fill_tensor_proto(message, array):
    """Sets a TensorProto to a NumPy array (str, bytes, float32, float64, int32, int64, bool), and returns it."""
    array = np.asarray(array)
    message.tensor_shape.SetInParent()  # a scalar has a shape too
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if array.dtype.kind in "OSU":
        message.dtype = _STRING
        message.string_val.extend(map(_bytes, array.ravel().tolist()))
        return message
    for number, (layout, _) in _TYPES.items():
        if array.dtype == np.dtype(layout):
            message.dtype, message.tensor_content = number, array.astype(layout).tobytes()
            return message
    raise TypeError(f"expected strings, float32, float64, int32, int64 or bool. Received: {array.dtype}")


def tensor_proto_to_array(message):
    """TensorProto → NumPy array; strings become an object array of bytes.

    Raises:
        ValueError: a dtype that answers do not have, or values that do not fit the shape.
    """
    shape = tuple(dim.size for dim in message.tensor_shape.dim)
    if message.dtype == _STRING:
        values = np.array([*message.string_val, None], dtype=object)[:-1]
    elif message.dtype not in _TYPES:
        raise ValueError(f"expected a tensor of strings, floats, integers or bools. Received: DataType {message.dtype}")
    else:
        layout, field = _TYPES[message.dtype]
        content = message.tensor_content
        values = np.frombuffer(content, layout) if content else np.array(getattr(message, field), layout)
    size = math.prod(shape)
    if 0 < len(values) < size:  # TensorProto: the last value is repeated
        values = np.concatenate([values, np.repeat(values[-1:], size - len(values))])
    if len(values) != size:
        raise ValueError(f"expected {size} values, for shape {shape}. Received: {len(values)}")
    return values.reshape(shape)


def _bytes(value):
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    raise TypeError(f"expected strings. Received: {value!r}")


def _arrays(tensors):
    # A tensor may repeat its last value, and have rows without values: a short message must not exhaust the memory.
    shapes = {name: [dim.size for dim in tensor.tensor_shape.dim] for name, tensor in tensors.items()}
    entries = sum(abs(math.prod(itertools.takewhile(bool, shape))) for shape in shapes.values())
    received = sum(tensor.ByteSize() for tensor in tensors.values())
    if entries > max(received, _LEAST):
        raise ValueError(
            f"expected at most as many values as bytes. Received: shapes {shapes!s:.200}, {received} bytes"
        )
    return {name: tensor_proto_to_array(tensors[name]) for name in sorted(tensors)}  # a map has no order


def _model_spec(model, signature, version, label):
    version = None if version is None else {"value": version}
    return _CLASSES["ModelSpec"](name=model, signature_name=signature, version=version, version_label=label)


def _encode(message):
    return message.SerializeToString(deterministic=True)
