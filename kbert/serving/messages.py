"""The messages of TensorFlow Serving that kbert writes and reads, without tensorflow-serving-api.

Field numbers: tensorflow_serving/apis/*.proto (checked against the official messages in tests/serving).
"""

from kbert.serving import wire
from kbert.serving.tensor_proto import decode_tensor, encode_tensor

_LOG_FIELDS = {"predict": 6, "classify": 2, "regress": 3}  # of PredictionLog
KINDS = tuple(_LOG_FIELDS)


def predict_request(signature, inputs, model="default", version=None, label=None):
    """PredictRequest. `inputs`: dict of name → array of strings [B] or [B, C]."""
    entries = ((2, wire.encode((1, name), (2, encode_tensor(value)))) for name, value in inputs.items())
    return wire.encode((1, _model_spec(model, signature, version, label)), *entries)


def example_request(signature, examples, model="default", version=None, label=None):
    """ClassificationRequest and RegressionRequest, which have the same fields. `examples`: dicts of name → string."""
    encoded = wire.encode(*((1, encode_example(example)) for example in examples))
    return wire.encode((1, _model_spec(model, signature, version, label)), (2, wire.encode((1, encoded))))


def encode_example(columns):
    """A serialised tf.Example of string features: dict of name → str or bytes."""
    features = (
        (1, wire.encode((1, name), (2, wire.encode((1, wire.encode((1, value)))))))
        for name, value in sorted(columns.items())
    )
    return wire.encode((1, wire.encode(*features)))


def prediction_log(kind, request):
    """PredictionLog, what a warm-up file holds. `kind`: one of predict, classify, regress."""
    return wire.encode((_LOG_FIELDS[kind], wire.encode((1, request))))


def read_prediction_log(data):
    """(kind, signature name, inputs) of a PredictionLog.

    Returns:
        kind: predict, classify or regress; inputs: dict of name → array for predict, else the list of the serialised
        tf.Examples.

    Raises:
        ValueError: another message, or another kind of log.
    """
    fields = wire.decode(data)
    kinds = [kind for kind, number in _LOG_FIELDS.items() if number in fields]
    if len(kinds) != 1:
        raise ValueError(
            f"expected a PredictionLog with a log of {list(_LOG_FIELDS)}. Received: fields {sorted(fields)}"
        )
    request = wire.decode(wire.decode(fields[_LOG_FIELDS[kinds[0]]][-1]).get(1, [b""])[-1])
    signature = wire.text(wire.decode(request.get(1, [b""])[-1]), 3, "serving_default")
    if kinds[0] == "predict":
        inputs = {name: decode_tensor(value) for name, value in wire.string_map(request.get(2, [])).items()}
        return "predict", signature, inputs
    example_list = wire.decode(wire.decode(request.get(2, [b""])[-1]).get(1, [b""])[-1])
    return kinds[0], signature, example_list.get(1, [])


def read_predict_response(data):
    """PredictResponse → dict of output name → array."""
    return {name: decode_tensor(value) for name, value in wire.string_map(wire.decode(data).get(1, [])).items()}


def _model_spec(model, signature, version, label):
    fields = [(1, model), (3, signature)]
    if version is not None:
        fields.append((2, wire.encode((1, version))))
    if label is not None:
        fields.append((4, label))
    return wire.encode(*fields)
