"""SIGINT and SIGTERM as requests: current work is finished and saved before the program ends."""

import atexit
import functools
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import ClassVar

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LATER = 0.05  # seconds until the exception is raised after all


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM, raised in the main thread at a point where no work is incomplete.

    Args:
        report: the line that says what was saved and how to resume; None: nothing was said yet.

    Attributes:
        status: int, the exit status by convention: 130 after SIGINT, 143 after SIGTERM.
    """

    def __init__(self, number: int = signal.SIGINT, report: str | None = None):
        super().__init__(report or signal.Signals(number).name)
        self.number = signal.Signals(number)
        self.report = report
        self.status = 128 + number


def interrupt(number: int, frame: FrameType | None) -> None:
    """A signal handler that raises `Interrupted`; the next signal ends the process at once.

    It waits for the end of an import, because native modules crash or report another error when an exception interrupts
    them. If Python ignores the exception (JAX has a callback for each garbage collection), it is raised again.
    """
    let_signals_kill()
    signal.signal(signal.SIGALRM, functools.partial(_raise, number))
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)  # an alarm after the end of Python would kill the process
    _raise(number, signal.SIGALRM, frame)


def _raise(number, _, frame):
    if _is_importing(frame):
        signal.setitimer(signal.ITIMER_REAL, _LATER)
        return
    sys.unraisablehook = functools.partial(_raise_again, sys.unraisablehook)
    raise Interrupted(number)


def _raise_again(hook, ignored):
    if not isinstance(ignored.exc_value, Interrupted):
        hook(ignored)
        return
    sys.unraisablehook = hook
    signal.setitimer(signal.ITIMER_REAL, _LATER)


def _is_importing(frame):
    while frame is not None and frame.f_globals.get("__package__") != "importlib":
        frame = frame.f_back
    return frame is not None


def let_signals_kill() -> None:
    """From now on SIGINT and SIGTERM end the process at once."""
    _set({number: signal.SIG_DFL for number in _SIGNALS})


def take_signals(handler: Callable) -> dict:
    """Sets a handler for SIGINT and SIGTERM, but not for those that the program ignores or handles itself.

    Returns {signal: handler before}; empty outside the main thread, which alone may set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    ours = (signal.SIG_DFL, signal.default_int_handler, interrupt)
    before = {number: current for number in _SIGNALS if (current := signal.getsignal(number)) in ours}
    _set(dict.fromkeys(before, handler))
    return before


def _set(handlers: dict) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


class DeferredSignals:
    """From `take` to `give_back` the first SIGINT or SIGTERM is only `received`; the second ends the process at once.

    Outside the main thread nothing is taken.
    """

    _last: ClassVar["DeferredSignals | None"] = None

    def __init__(self):
        self.received: int | None = None
        self._before: dict = {}

    def take(self) -> None:
        """Sets the handlers if they are not set."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        give_back_signals()  # of a training that an error has ended, or in which this one runs
        DeferredSignals._last = self
        self._before = take_signals(self._receive)

    def give_back(self) -> None:
        """Restores the handlers before `take`."""
        if threading.current_thread() is threading.main_thread():
            _set(self._before)
            self._before = {}

    def _receive(self, number, frame):
        _set(dict.fromkeys(self._before, signal.SIG_DFL))
        self.received = number


def give_back_signals() -> None:
    """Restores the handlers before a training, whatever has ended it."""
    if DeferredSignals._last is not None:
        DeferredSignals._last.give_back()
