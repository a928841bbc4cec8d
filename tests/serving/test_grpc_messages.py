"""The messages of the client over gRPC are those of TensorFlow and of tensorflow-serving-api."""

import types

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.message import DecodeError
from helpers.wrong_values import wrong_inputs
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import classification_pb2, predict_pb2, regression_pb2

from kbert.serving.grpc_transport import (
    MESSAGES,
    GrpcTransport,
    example_request,
    predict_request,
    tensors_to_arrays,
)
from kbert.serving.rest_transport import ServedModel

ARRAYS = [
    np.array([["a", "é 中"], ["", "x" * 300]], dtype=object),
    np.array([b"\xff\x00", b""], dtype=object),
    np.zeros((0, 3), "float32"),
    np.array(1.5, "float32"),
    np.array([[1, -2], [3, 2**31 - 1]], "int32"),
    np.array([-(2**62), 0], "int64"),
    np.array([True, False]),
    np.array([0.5, -1e300]),
    np.zeros((1024, 0), object),  # empty answers of many rows
    np.zeros((0, 2**20), "float32"),
]


def read_outputs(**tensors):
    """What the client makes of the answer of a server with these outputs."""
    response = predict_pb2.PredictResponse()
    for name, tensor in tensors.items():  # protobuf 5 takes no dicts of dicts
        response.outputs[name].CopyFrom(tensor_pb2.TensorProto(**tensor) if isinstance(tensor, dict) else tensor)
    entries = MESSAGES["predict"].FromString(response.SerializeToString()).outputs
    return tensors_to_arrays({entry.key: entry.value for entry in entries})


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_answers(array):
    encoded = [value.encode() if isinstance(value, str) else value for value in array.ravel().tolist()]
    expected = np.array([*encoded, None], dtype=object)[:-1].reshape(array.shape) if array.dtype == object else array
    answer = read_outputs(x=tf.make_tensor_proto(array, shape=array.shape))["x"]
    np.testing.assert_array_equal(answer, expected)
    assert answer.dtype == expected.dtype and answer.shape == expected.shape


def test_values_that_do_not_fit():
    def read(tensor):
        dtype, shape, values = tensor
        read_outputs(x={"dtype": dtype, "tensor_shape": {"dim": [{"size": size} for size in shape]}, **values})

    wrong_inputs(
        read,
        (("DT_RESOURCE", [], {}), "expected a tensor of strings, floats, .* Received: DataType 20"),
        (("DT_UINT8", [], {"int_val": [300]}), "DataType 4"),
        ((99, [], {}), "DataType 99"),
        (("DT_FLOAT", [3], {}), "expected 3 values, for shape .3.. Received: 0"),
        (("DT_FLOAT", [3], {"float_val": [1.0, 2.0, 3.0, 4.0]}), "expected 3 values, for shape .3.. Received: 4"),
        (("DT_FLOAT", [3], {"tensor_content": b"abc"}), "buffer size must be a multiple"),
        (("DT_FLOAT", [-1, -1], {"float_val": [1.0]}), "one unknown dimension"),
        (("DT_FLOAT", [-3], {"float_val": [1.0]}), "expected -3 values"),
        (("DT_STRING", [], {"string_val": [b"a", b"b"]}), "expected 1 values"),
    )


def test_the_last_value_is_repeated():
    dimensions = {"dim": [{"size": 3}]}
    for dtype, field, values in ((1, "float_val", [1.5, 2]), (3, "int_val", [-7, 2]), (7, "string_val", [b"a", b"b"])):
        tensor = tensor_pb2.TensorProto(dtype=dtype, tensor_shape=dimensions, **{field: values})
        np.testing.assert_array_equal(read_outputs(x=tensor)["x"], [*values, values[-1]])


@pytest.mark.parametrize("shape", [[2**28], [2**14, 2**14], [2**40, 0, 3], [5000], [-(2**20), -(2**20)]])
def test_a_short_message_stands_for_few_values(shape):
    """29 bytes took 4.1 GB. Several tensors have no more together, and a negative one takes nothing off."""

    def tensor(shape):
        return {"dtype": 1, "float_val": [1.0], "tensor_shape": {"dim": [{"size": size} for size in shape]}}

    for tensors in ({"x": tensor(shape)}, {"x": tensor(shape), "y": tensor([-(2**60)])}):
        with pytest.raises(ValueError, match="expected at most as many values as bytes"):
            read_outputs(**tensors)


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05ab", b"\xff" * 12, b"\x0f\x01"])
def test_what_is_no_message(data):
    for name in ("predict", "classify", "regress"):
        with pytest.raises(DecodeError):
            MESSAGES[name].FromString(data)


def test_requests_are_official_messages():
    model = ServedModel("grpc://host", "squad", version=300)
    columns = {"text": ["a", "é", b"\xff"], "choices": [["a", "b"]] * 3}
    data = predict_request(model, "answer", columns).SerializeToString()
    request = predict_pb2.PredictRequest.FromString(data)
    spec = request.model_spec
    assert (spec.name, spec.signature_name, spec.version.value) == ("squad", "answer", 300)
    assert tf.make_ndarray(request.inputs["text"]).tolist() == [b"a", "é".encode(), b"\xff"]
    assert tf.make_ndarray(request.inputs["choices"]).tolist() == [[b"a", b"b"]] * 3
    data = predict_request(ServedModel("grpc://host", "m", label="stable"), "x", {}).SerializeToString()
    assert predict_pb2.PredictRequest.FromString(data).model_spec.version_label == "stable"
    data = example_request(model, "classify", [{"text": "é"}, {"text": b"\xff"}]).SerializeToString()
    for message in (classification_pb2.ClassificationRequest, regression_pb2.RegressionRequest):
        examples = message.FromString(data).input.example_list.examples
        values = [example.features.feature["text"].bytes_list.value[0] for example in examples]
        assert values == ["é".encode(), b"\xff"] and message.FromString(data).model_spec.name == "squad"


@pytest.mark.parametrize("details, may_retry", [("queue is full", True), ("Received message larger than max", False)])
def test_a_message_that_is_too_large_is_not_sent_again(details, may_retry):
    error = types.SimpleNamespace(code=lambda: grpc.StatusCode.RESOURCE_EXHAUSTED, details=lambda: details)
    transport = GrpcTransport(ServedModel("grpc://localhost:1", "m"), 1.0, None, None)
    assert transport._serving_error(error, "serving_default").may_retry is may_retry
