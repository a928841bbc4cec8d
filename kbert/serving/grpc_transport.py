"""TensorFlow Serving's gRPC interface, with grpcio and protobuf."""

import pathlib

import numpy as np

from kbert.serving.messages import (
    MAX_MESSAGE,
    example_request,
    predict_request,
    read_classification_response,
    read_predict_response,
    read_regression_response,
)
from kbert.serving.serving_error import NO_SERVER, ServingError

_SERVICE = "/tensorflow.serving.PredictionService/"


class GrpcTransport:
    """Calls of a PredictionService.

    Raises:
        ValueError: grpcio is not installed.
        OSError: a file of certificates that cannot be read.

    Source: tensorflow_serving/apis/prediction_service.proto.
    """

    def __init__(self, url, root_certificates, client_certificate):
        try:
            import grpc
        except ImportError:
            raise ValueError("grpc:// needs grpcio: pip install grpcio") from None
        self._errors, self._codes, self.url = grpc.RpcError, grpc.StatusCode, url
        scheme, _, address = url.partition("://")
        options = [(f"grpc.max_{way}_message_length", MAX_MESSAGE) for way in ("receive", "send")]
        if scheme == "grpc":
            self._channel = grpc.insecure_channel(address, options)
        else:
            certificate, key = client_certificate or (None, None)
            credentials = grpc.ssl_channel_credentials(_read(root_certificates), _read(key), _read(certificate))
            self._channel = grpc.secure_channel(address, credentials, options)

    def predict(self, spec, inputs, timeout):
        """dict of output → list. `spec`: arguments of `kbert.serving.messages.predict_request`."""
        columns = {name: np.array(value, dtype=object) for name, value in inputs.items()}
        response = self._call("Predict", spec, predict_request(inputs=columns, **spec), timeout, read_predict_response)
        return {name: _plain(value) for name, value in response.items()}

    def classify(self, spec, examples, timeout):
        """[(label, score), …] for each example."""
        request = example_request(examples=examples, **spec)
        return self._call("Classify", spec, request, timeout, read_classification_response)

    def regress(self, spec, examples, timeout):
        """A number for each example."""
        request = example_request(examples=examples, **spec)
        return self._call("Regress", spec, request, timeout, read_regression_response)

    def _call(self, method, spec, request, timeout, read):
        try:
            response = self._channel.unary_unary(_SERVICE + method)(request, timeout=timeout)
        except self._errors as error:
            code = error.code()
            if code == self._codes.DEADLINE_EXCEEDED:
                raise ServingError(f"{self.url} did not answer within {timeout:g} s") from None
            again = code in (self._codes.UNAVAILABLE, self._codes.RESOURCE_EXHAUSTED)
            if code == self._codes.UNAVAILABLE:
                reason = f"cannot be reached: {error.details()}. {NO_SERVER}"
            else:
                reason = f"answered {code.name}: {error.details()} (signature {spec['signature']!r})"
            raise ServingError(f"{self.url} {reason}", may_retry=again) from None
        try:
            return read(response)
        except ValueError as error:
            raise ServingError(f"{self.url}: expected a message of TensorFlow Serving: {error}") from None


def _read(path):
    return None if path is None else pathlib.Path(path).read_bytes()


def _plain(array):
    """As REST returns it: lists of str and numbers."""
    if array.dtype != object:
        return array.tolist()

    def decoded(value):
        return [decoded(one) for one in value] if isinstance(value, list) else value.decode("utf-8", "replace")

    return decoded(array.tolist())
