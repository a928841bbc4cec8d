"""Measurements that are made as often as their cost allows."""

import contextlib
import time


class Sampler:
    """Allows a measurement whenever all of them together stay below a share of the time.

    The first one is always allowed.

    Args:
        share: float, of the time since `begin`; 1.0 or more: every measurement is allowed.
        now: function that gives the time in seconds.

    Raises:
        ValueError: a `share` that is not above 0.

    Example::

        sampler = Sampler(0.01)
        sampler.begin()
        if sampler.is_due():
            with sampler.measure():
                norms = layer_norms(model, learning_rate)
    """

    def __init__(self, share, now=time.perf_counter):
        if isinstance(share, bool) or not isinstance(share, int | float) or not share > 0:
            raise ValueError(f"TensorBoard: `share` of the time must be a number above 0. Received: {share!r}")
        self.share, self._now = share, now
        self._start, self._spent, self._last = None, 0.0, 0.0

    def begin(self) -> None:
        """Starts the clock, once."""
        if self._start is None:
            self._start = self._now()

    def is_due(self, cost: float | None = None) -> bool:
        """Whether a measurement is allowed now.

        Args:
            cost: float, the seconds that it will take; None: as many as the last one.
        """
        cost = self._last if cost is None else cost
        return self.share >= 1 or self._spent + cost <= self.share * (self._now() - self._start)

    @contextlib.contextmanager
    def measure(self):
        """Counts the time of its block."""
        start = self._now()
        try:
            yield
        finally:
            self._last = self._now() - start
            self._spent += self._last
