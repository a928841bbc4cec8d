"""The error of a client."""

NO_SERVER = "Is TensorFlow Serving running there (docs/serving.md)? Without a server, recipes/predict.py answers."


class ServingError(OSError):
    """A server that cannot be reached, is too slow, refuses, or returns an invalid answer; the message says which.

    Attributes:
        may_retry: whether repeating the request soon may help.
    """

    def __init__(self, message, may_retry=False):
        super().__init__(message)
        self.may_retry = may_retry
