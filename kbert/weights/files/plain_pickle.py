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


def read_pickle(file: BinaryIO, known: Mapping[tuple[str, str], Any], persistent: Callable[[Any], Any]) -> Any:
    """The value that a pickle describes; afterwards the file's position is at its end.

    It is made of dicts (with strings or integers as keys), lists, tuples, strings, numbers, None, and what `persistent`
    (a function of a persistent id) and `known` return: the replacement of each (module, name), a string or a function
    of the pickled arguments. The state of a dict (torch's ``_metadata``) is dropped. Any other name, or an opcode that
    is not needed for these, is a RefusedPickle. A damaged pickle gives an UnpicklingError, IndexError or ValueError.
    """
    machine = _Machine(known, persistent)
    for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if opcode.name == "STOP":
            return machine.pop()
        machine.step(opcode.name, argument, count)
    raise pickle.UnpicklingError("no end")


class _Machine:
    def __init__(self, known, persistent):
        self.known = known
        self.persistent = persistent
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def step(self, name, argument, count):
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            self.stack.append(tuple(self.pop_many(len(self.stack) - _TUPLES[name])))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            if argument > count:
                raise pickle.UnpicklingError(f"an entry {argument} of a memo that has at most {count}")
            self.memo[argument] = self.stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif operation := getattr(self, "do_" + name, None):
            operation(argument)
        elif name not in ("PROTO", "FRAME"):
            raise RefusedPickle(f"its pickle has the opcode {name}")

    def pop(self):
        return self.pop_many(len(self.stack) - 1)[0]

    def pop_many(self, start):
        """All values from `start` on, but none before the last mark."""
        if start < (self.marks[-1] if self.marks else 0):
            raise pickle.UnpicklingError("more values taken than there are")
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def pop_to_mark(self):
        start = self.marks[-1]
        values = self.pop_many(start)
        self.marks.pop()
        return values

    def top(self, kind):
        value = self.stack[-1]
        if type(value) is not kind:
            raise RefusedPickle(f"its pickle changes a {type(value).__name__} as if it were a {kind.__name__}")
        return value

    def do_MARK(self, _):
        self.marks.append(len(self.stack))

    def do_POP(self, _):
        self.pop()

    def do_EMPTY_DICT(self, _):
        self.stack.append({})

    def do_EMPTY_LIST(self, _):
        self.stack.append([])

    def do_TUPLE(self, _):
        self.stack.append(tuple(self.pop_to_mark()))

    def do_MEMOIZE(self, _):
        self.memo[len(self.memo)] = self.stack[-1]

    def do_APPEND(self, _):
        value = self.pop()
        self.top(list).append(value)

    def do_APPENDS(self, _):
        values = self.pop_to_mark()
        self.top(list).extend(values)

    def do_SETITEM(self, _):
        value, key = self.pop(), self.pop()
        self._set(self.top(dict), [key, value])

    def do_SETITEMS(self, _):
        values = self.pop_to_mark()
        self._set(self.top(dict), values)

    def _set(self, target, values):
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, str | int):
                raise pickle.UnpicklingError(f"a key of a dict that is a {type(key).__name__}")
            target[key] = value

    def do_BUILD(self, _):
        self.pop()
        self.top(dict)

    def do_GLOBAL(self, argument):
        self._name(*argument.split(" ", 1))

    def do_STACK_GLOBAL(self, _):
        name, module = self.pop(), self.pop()
        self._name(module, name)

    def _name(self, module, name):
        if not isinstance(module, str) or not isinstance(name, str):
            raise pickle.UnpicklingError("a name that is not a string")
        if (module, name) not in self.known:
            raise RefusedPickle(f"its pickle names {module[:100]}.{name[:100]}")
        value = self.known[module, name]
        self.stack.append(_Function(value) if callable(value) else value)

    def do_REDUCE(self, _):
        arguments, function = self.pop(), self.pop()
        if type(function) is not _Function or type(arguments) is not tuple:
            raise RefusedPickle(f"its pickle calls {reprlib.repr(type(function).__name__)}")
        self.stack.append(function.call(*arguments))

    def do_BINPERSID(self, _):
        self.stack.append(self.persistent(self.pop()))
