"""Reads pickles as data: the few opcodes for dicts, tuples and numbers, and functions that the caller allows.

Python's own `pickle.Unpickler` is not used: it calls, builds and sets whatever the pickle says.
"""

import pickle
import pickletools
import reprlib
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = "BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE BINSTRING SHORT_BINSTRING".split()
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class RefusedPickle(ValueError):
    """A pickle that names or does something that files of weights do not need."""


class _Function:
    """A function named in a pickle that may be called; wrapped, so that the pickle cannot change the function."""

    def __init__(self, call):
        self.call = call


def read_pickle(file: BinaryIO, allowed: Mapping[tuple[str, str], Any], persistent: Callable[[Any], Any]) -> Any:
    """The value that a pickle describes; afterwards the file's position is at its end.

    It is made of dicts (with strings or integers as keys), lists, tuples, strings, numbers, None, and what `persistent`
    (a function of a persistent id) and `allowed` return: the replacement of each (module, name), a string or a function
    of the pickled arguments. The state of a dict (torch's ``_metadata``) is dropped. Any other name, or an opcode that
    is not needed for these, is a RefusedPickle. A damaged pickle gives an UnpicklingError, IndexError or ValueError.
    """
    machine = _Machine(allowed, persistent)
    for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if opcode.name == "STOP":
            return machine.pop()
        machine.step(opcode.name, argument, count)
    raise pickle.UnpicklingError("no end")


class _Machine:
    def __init__(self, allowed, persistent):
        self.allowed = allowed
        self.persistent = persistent
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any, count: int) -> None:
        match name:
            case "PROTO" | "FRAME":
                pass
            case _ if name in _VALUES:
                self.stack.append(argument)
            case _ if name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            case _ if name in _TUPLES:
                self.stack.append(tuple(self.pop_many(len(self.stack) - _TUPLES[name])))
            case "TUPLE":
                self.stack.append(tuple(self.pop_to_mark()))
            case "EMPTY_DICT":
                self.stack.append({})
            case "EMPTY_LIST":
                self.stack.append([])
            case "MARK":
                self.marks.append(len(self.stack))
            case "POP":
                self.pop()
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                if argument > count:
                    raise pickle.UnpicklingError(f"an entry {argument} of a memo that has at most {count}")
                self.memo[argument] = self.stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = self.stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                self.stack.append(self.memo[argument])
            case "APPEND":
                value = self.pop()
                self.top(list).append(value)
            case "APPENDS":
                values = self.pop_to_mark()
                self.top(list).extend(values)
            case "SETITEM":
                value, key = self.pop(), self.pop()
                self.set_items([key, value])
            case "SETITEMS":
                self.set_items(self.pop_to_mark())
            case "BUILD":  # the state of a dict
                self.pop()
                self.top(dict)
            case "GLOBAL":
                self.push_named(*argument.split(" ", 1))
            case "STACK_GLOBAL":
                name, module = self.pop(), self.pop()
                self.push_named(module, name)
            case "REDUCE":
                arguments, function = self.pop(), self.pop()
                if type(function) is not _Function or type(arguments) is not tuple:
                    raise RefusedPickle(f"its pickle calls {reprlib.repr(type(function).__name__)}")
                self.stack.append(function.call(*arguments))
            case "BINPERSID":
                self.stack.append(self.persistent(self.pop()))
            case _:
                raise RefusedPickle(f"its pickle has the opcode {name}")

    def pop(self) -> Any:
        return self.pop_many(len(self.stack) - 1)[0]

    def pop_many(self, start: int) -> list[Any]:
        """All values from `start` on, but none before the last mark."""
        if start < (self.marks[-1] if self.marks else 0):
            raise pickle.UnpicklingError("more values taken than there are")
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def pop_to_mark(self) -> list[Any]:
        start = self.marks[-1]
        values = self.pop_many(start)
        self.marks.pop()
        return values

    def top(self, kind: type) -> Any:
        value = self.stack[-1]
        if type(value) is not kind:
            raise RefusedPickle(f"its pickle changes a {type(value).__name__} as if it were a {kind.__name__}")
        return value

    def set_items(self, values: list[Any]) -> None:
        target = self.top(dict)
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, str | int):
                raise pickle.UnpicklingError(f"a key of a dict that is a {type(key).__name__}")
            target[key] = value

    def push_named(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise pickle.UnpicklingError("a name that is not a string")
        if (module, name) not in self.allowed:
            raise RefusedPickle(f"its pickle names {module[:100]}.{name[:100]}")
        value = self.allowed[module, name]
        self.stack.append(_Function(value) if callable(value) else value)
