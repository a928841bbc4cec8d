"""Reads pickles as data: the few opcodes for dicts, tuples and numbers, and functions that the caller allows."""

import pickle
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from kbert.weights.files.tensor_file import RefusedFile

_OPCODES = (
    "PROTO FRAME STOP MARK POP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE "
    "BINSTRING SHORT_BINSTRING EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS SETITEM SETITEMS "
    "BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE BINPERSID"
).split()


_REFUSAL = (
    "which no file of weights needs; loading it could run any program. Nothing of it was executed. Get the weights as "
    "safetensors, or from somebody you trust."
)


class PlainDict(dict):
    """The dicts of a pickle. Their keys are strings or integers: the hash of nested tuples could take forever."""

    __slots__ = ()

    def __setitem__(self, key, value):
        if type(key) not in (str, int):
            raise pickle.UnpicklingError(f"a key of a dict that is a {type(key).__name__}")
        super().__setitem__(key, value)


class _Loaders(dict):
    def __missing__(self, opcode):
        raise RefusedFile(f"its pickle has the opcode {bytes([opcode])!r}, {_REFUSAL}")


class _Unpickler(pickle._Unpickler):  # in Python: the C class cannot leave out opcodes and allocates what a memo claims
    dispatch = _Loaders((code, pickle._Unpickler.dispatch[code]) for (code,) in (getattr(pickle, n) for n in _OPCODES))
    dispatch[pickle.EMPTY_DICT[0]] = lambda self: self.append(PlainDict())
    dispatch[pickle.BUILD[0]] = pickle._Unpickler.load_pop  # drops the state of an object, as torch's `_metadata`

    def __init__(self, file, allowed, persistent_load):
        super().__init__(file)
        self.allowed = allowed
        self.persistent_load = persistent_load

    def find_class(self, module, name):
        if (module, name) not in self.allowed:
            raise RefusedFile(f"its pickle names {module[:100]}.{name[:100]}, {_REFUSAL}")
        return self.allowed[module, name]


def read_pickle(file: BinaryIO, allowed: Mapping[tuple[str, str], Any], persistent: Callable[[Any], Any]) -> Any:
    """The value that a pickle describes; afterwards the file's position is at its end.

    It is made of `PlainDict`, lists, tuples, strings, numbers, None, and what `persistent` (a function of a persistent
    id) and `allowed` return: the replacement of each (module, name), a string or a function of the pickled arguments.
    Any other name, or an opcode that is not needed for these, is a RefusedFile. A damaged pickle can raise anything.
    """
    return _Unpickler(file, allowed, persistent).load()
