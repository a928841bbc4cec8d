"""Errors that a user can fix: the command line shows their message without a traceback."""

import contextlib
import functools
import re
import sys
from collections.abc import Iterator

_IN_PYTHON = re.compile(r"(\w+(?:Error|Exception|Input)): ([^\n]*)\nTraceback \(most recent call last\)")


class UserError(Exception):
    """A wrong value, a damaged file, too little memory, a lost machine: what the user can fix, and no bug.

    Derive from it and from the built-in class that callers catch: ``class OutOfMemory(UserError, ValueError)``.
    """


class SetupError(UserError, RuntimeError):
    """The devices, workers, packages or the Keras backend of this process cannot do what was asked for."""


class MissingPackage(UserError, ImportError):
    """A package that kbert uses where it is installed is not."""


class UnreadableInput(UserError, ValueError):
    """A file that a dataset reads is damaged; the message names the file."""


_OF_FILES = {
    "ValueError": UnreadableInput,
    "UnreadableInput": UnreadableInput,
    "OSError": OSError,
    "FileNotFoundError": OSError,
    "PermissionError": OSError,
}


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Marks a ValueError, OSError or FloatingPointError that leaves the block as `UserError`, beside its own class.

    `kbert.options.checked` has one around every public function. A ValueError of a block of `internal_errors` is not
    marked.
    """
    try:
        with reading_errors():
            yield
    except (ValueError, OSError, FloatingPointError) as error:
        if isinstance(error, UserError) or getattr(error, "is_internal", False):
            raise
        marked = _mark(error)
        cause = error.__cause__ if error.__suppress_context__ else error.__context__
        raise marked.with_traceback(error.__traceback__) from cause


@contextlib.contextmanager
def internal_errors() -> Iterator[None]:
    """A block, such as the training, whose ValueErrors are bugs unless they are marked already."""
    try:
        yield
    except ValueError as error:
        error.is_internal = True
        raise


def _mark(error):
    kind, arguments, *state = error.__reduce__()
    marked = _marked_class(kind)(*arguments)
    for attributes in state:
        vars(marked).update(attributes)
    return marked


@functools.cache
def _marked_class(kind):
    def reduce(self):  # pickle finds the class by its name
        return (kind, *kind.__reduce__(self)[1:])

    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__reduce__": reduce}
    return type(kind.__name__, (UserError, kind), names)


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
