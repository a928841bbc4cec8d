"""TensorFlow Serving's gRPC interface, with grpcio alone."""

from kbert.serving import wire
from kbert.serving.messages import example_request, predict_request, read_predict_response
from kbert.serving.serving_error import ServingError

_SERVICE = "/tensorflow.serving.PredictionService/"


class GrpcTransport:
    """Calls of a PredictionService.

    Args:
        address: host:port.

    Raises:
        ValueError: grpcio is not installed.
    """

    def __init__(self, address):
        try:
            import grpc
        except ImportError:
            raise ValueError('grpc:// needs grpcio: pip install "kbert[serving]"') from None
        self._errors, self._codes, self.address = grpc.RpcError, grpc.StatusCode, address
        options = [(f"grpc.max_{way}_message_length", wire.MAX_MESSAGE) for way in ("receive", "send")]
        self._channel = grpc.insecure_channel(address, options)

    def predict(self, spec, inputs, timeout):
        """dict of output → list. `spec`: arguments of `kbert.serving.messages.predict_request`."""
        response = self._call("Predict", predict_request(inputs=_columns(inputs), **spec), timeout)
        return {name: _plain(value) for name, value in self._read(read_predict_response, response).items()}

    def classify(self, spec, examples, timeout):
        """[(label, score), …] for each example."""
        response = self._call("Classify", example_request(examples=examples, **spec), timeout)
        return self._read(_classifications, response)

    def regress(self, spec, examples, timeout):
        """A number for each example."""
        response = self._call("Regress", example_request(examples=examples, **spec), timeout)
        return self._read(_regressions, response)

    def _call(self, method, request, timeout):
        try:
            return self._channel.unary_unary(_SERVICE + method)(request, timeout=timeout)
        except self._errors as error:
            code = error.code()
            if code == self._codes.DEADLINE_EXCEEDED:
                raise ServingError(f"grpc://{self.address} did not answer within {timeout:g} s") from None
            again = code in (self._codes.UNAVAILABLE, self._codes.RESOURCE_EXHAUSTED)
            what = "cannot be reached" if code == self._codes.UNAVAILABLE else f"answered {code.name}"
            raise ServingError(f"grpc://{self.address} {what}: {error.details()}", may_retry=again) from None

    def _read(self, read, response):
        try:
            return read(response)
        except (ValueError, AttributeError, TypeError, LookupError, OverflowError) as error:
            raise ServingError(f"grpc://{self.address}: expected a message of TensorFlow Serving: {error}") from None


def _columns(inputs):
    import numpy as np

    return {name: np.array(value, dtype=object) for name, value in inputs.items()}


def _plain(array):
    """As REST gives it: lists of str and numbers."""
    if array.dtype != object:
        return array.tolist()

    def decoded(value):
        return [decoded(one) for one in value] if isinstance(value, list) else value.decode("utf-8", "replace")

    return decoded(array.tolist())


def _classifications(response):
    result = wire.decode(wire.decode(response).get(1, [b""])[-1])
    rows = []
    for row in result.get(1, []):
        classes = (wire.decode(one) for one in wire.decode(row).get(1, []))
        rows.append([(wire.text(one, 1), wire.floats(one.get(2, [bytes(4)]))[-1]) for one in classes])
    return rows


def _regressions(response):
    result = wire.decode(wire.decode(response).get(1, [b""])[-1])
    return [wire.floats(wire.decode(one).get(1, [bytes(4)]))[-1] for one in result.get(1, [])]
