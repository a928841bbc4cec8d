"""What goes wrong between a client and a server."""


class ServingError(OSError):
    """A server that is not there, is too slow, refuses, or answers with nonsense; the message says which.

    Attributes:
        may_retry: whether asking again soon may help.
    """

    def __init__(self, message, may_retry=False):
        super().__init__(message)
        self.may_retry = may_retry
