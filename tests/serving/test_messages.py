"""The messages are those of TensorFlow and of tensorflow-serving-api."""

import numpy as np
import pytest
import tensorflow as tf

from kbert.serving.messages import (
    encode_example,
    example_request,
    fill_tensor_proto,
    parse,
    predict_request,
    prediction_log,
    read_classification_response,
    read_predict_response,
    read_prediction_log,
    read_regression_response,
    tensor_proto_to_array,
)

ARRAYS = [
    np.array([["a", "é 中"], ["", "x" * 300]], dtype=object),
    np.array([b"\xff\x00", b""], dtype=object),
    np.zeros((0, 3), "float32"),
    np.array(1.5, "float32"),
    np.array([[1, -2], [3, 2**31 - 1]], "int32"),
    np.array([-(2**62), 0], "int64"),
    np.array([True, False]),
    np.array([0.5, -1e300]),
]


def encode_tensor(array):
    return fill_tensor_proto(parse("Tensor", b""), array).SerializeToString()


def decode_tensor(data):
    return tensor_proto_to_array(parse("Tensor", data))


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_tensors(array):
    from tensorflow.core.framework import tensor_pb2

    ours = tf.make_ndarray(tensor_pb2.TensorProto.FromString(encode_tensor(array)))
    encoded = [value.encode() if isinstance(value, str) else value for value in array.ravel().tolist()]
    expected = np.array([*encoded, None], dtype=object)[:-1].reshape(array.shape) if array.dtype == object else array
    np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(decode_tensor(encode_tensor(array)), expected)
    theirs = decode_tensor(tf.make_tensor_proto(array).SerializeToString())
    np.testing.assert_array_equal(theirs, expected)
    assert theirs.dtype == expected.dtype and theirs.shape == expected.shape


def test_tensors_of_single_values():
    from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2

    shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=3)])
    for dtype, field, values in ((1, "float_val", [1.5, 2]), (3, "int_val", [-7, 2]), (10, "bool_val", [True, False])):
        proto = tensor_pb2.TensorProto(dtype=dtype, tensor_shape=shape, **{field: values})
        np.testing.assert_array_equal(decode_tensor(proto.SerializeToString()), [*values, values[-1]])  # as TensorFlow
    with pytest.raises(ValueError, match="DataType 14"):
        decode_tensor(tensor_pb2.TensorProto(dtype=14).SerializeToString())
    with pytest.raises(ValueError, match="expected 3 values"):
        decode_tensor(tensor_pb2.TensorProto(dtype=1, tensor_shape=shape).SerializeToString())
    with pytest.raises(TypeError, match="expected strings"):
        encode_tensor(np.array([1j]))


@pytest.mark.parametrize("shape", [[2**28], [2**14, 2**14], [2**40, 0, 3], [5000], [-(2**20), -(2**20)]])
def test_a_short_message_stands_for_few_values(shape):
    """29 bytes took 4.1 GB. Several tensors have no more together, and a negative one takes nothing off."""
    response = parse("PredictResponse", b"")
    for name, sizes in (("x", shape), ("y", [-(2**60)])):
        tensor = response.outputs[name]
        tensor.dtype = 1
        tensor.float_val.append(1)
        for size in sizes:
            tensor.tensor_shape.dim.add(size=size)
    with pytest.raises(ValueError, match="expected at most as many values as bytes"):
        read_predict_response(response.SerializeToString())
    del response.outputs["y"]
    with pytest.raises(ValueError, match="expected at most as many values as bytes"):
        read_predict_response(response.SerializeToString())


def test_empty_answers_of_many_rows():
    response = parse("PredictResponse", b"")
    fill_tensor_proto(response.outputs["words"], np.zeros((1024, 0), object))
    fill_tensor_proto(response.outputs["scores"], np.zeros((0, 2**20), "float32"))
    answers = read_predict_response(response.SerializeToString())
    assert answers["words"].shape == (1024, 0) and answers["scores"].shape == (0, 2**20)


def test_examples():
    ours = tf.train.Example.FromString(encode_example({"text": "é", "other": b"\xff"}))
    found = {name: feature.bytes_list.value[0] for name, feature in ours.features.feature.items()}
    assert found == {"text": "é".encode(), "other": b"\xff"}


def test_what_is_no_message():
    for data in (b"\x0a", b"\x0a\x05ab", b"\xff" * 12, b"\x0f\x01"):
        for read in (decode_tensor, read_predict_response, read_classification_response, read_regression_response):
            with pytest.raises(ValueError, match="expected a protocol buffer"):
                read(data)
    with pytest.raises(ValueError, match="expected a PredictionLog"):
        read_prediction_log(b"")


@pytest.mark.parity
def test_official_messages():
    pytest.importorskip("tensorflow_serving", reason="tensorflow-serving-api is not installed")
    from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_log_pb2, regression_pb2

    text = np.array(["a", "é"], dtype=object)
    request = predict_pb2.PredictRequest.FromString(predict_request("answer", {"text": text}, "squad", version=300))
    spec = request.model_spec
    assert (spec.name, spec.signature_name, spec.version.value) == ("squad", "answer", 300)
    assert tf.make_ndarray(request.inputs["text"]).tolist() == [b"a", "é".encode()]
    labelled = predict_pb2.PredictRequest.FromString(predict_request("x", {}, "m", label="stable"))
    assert labelled.model_spec.version_label == "stable"
    encoded = example_request("classify", [{"text": "a"}, {"text": "b"}], "m")
    for message in (classification_pb2.ClassificationRequest, regression_pb2.RegressionRequest):
        examples = message.FromString(encoded).input.example_list.examples
        assert [e.features.feature["text"].bytes_list.value[0] for e in examples] == [b"a", b"b"]
    for kind in ("predict", "classify", "regress"):
        content = encoded if kind != "predict" else predict_request("answer", {"text": text})
        log = prediction_log_pb2.PredictionLog.FromString(prediction_log(kind, content))
        assert log.WhichOneof("log_type") == f"{kind}_log"
        read_kind, signature, inputs = read_prediction_log(log.SerializeToString())
        assert read_kind == kind and signature == ("answer" if kind == "predict" else "classify")
        assert len(inputs["text"] if kind == "predict" else inputs) == 2
    response = predict_pb2.PredictResponse()
    response.outputs["score"].CopyFrom(tf.make_tensor_proto([[0.5], [2.0]]))
    assert read_predict_response(response.SerializeToString())["score"].tolist() == [[0.5], [2.0]]
    response = classification_pb2.ClassificationResponse()
    response.result.classifications.add().classes.add(label="é", score=0.5)
    assert read_classification_response(response.SerializeToString()) == [[("é", 0.5)]]
    response = regression_pb2.RegressionResponse()
    response.result.regressions.add(value=0.25)
    assert read_regression_response(response.SerializeToString()) == [0.25]
