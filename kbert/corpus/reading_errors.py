"""Errors of files that are read inside a dataset, raised as if they were read outside of it."""

import contextlib
import re
import sys
from collections.abc import Iterator

_IN_PYTHON = re.compile(r"(\w+(?:Error|Exception)): ([^\n]*)\nTraceback \(most recent call last\)")


class UnreadableInput(ValueError):
    """A file that a dataset reads is damaged; the message names the file."""


_OF_FILES = {
    "ValueError": UnreadableInput,
    "OSError": OSError,
    "FileNotFoundError": OSError,
    "PermissionError": OSError,
}


@contextlib.contextmanager
def reading_errors() -> Iterator[None]:
    """Raises errors of a dataset's Python code (a damaged shard, a truncated corpus) with their own message.

    A ValueError becomes an `UnreadableInput`. TensorFlow reports it as `tf.errors.InvalidArgumentError` or
    `UnknownError`, with a traceback in the message. Other errors pass unchanged.
    """
    try:
        yield
    except Exception as error:
        match = _IN_PYTHON.search(error.message) if _is_tensorflows(error) else None
        if match is None or match[1] not in _OF_FILES:
            raise
        raise _OF_FILES[match[1]](match[2]) from None


def _is_tensorflows(error):
    if "tensorflow" not in sys.modules:  # a process that trains on JAX without it
        return False
    import tensorflow as tf

    return isinstance(error, tf.errors.OpError)
