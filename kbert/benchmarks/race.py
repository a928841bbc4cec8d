"""Measures several systems in turn, in one process, so that varying load affects all of them alike."""

import logging
import statistics
import time

_LOGGER = logging.getLogger("kbert")


def race(systems, seconds, rounds):
    """Runs each system for `seconds`, one after the other, `rounds` times.

    Args:
        systems: name → function that does one unit of work and returns (nominal tokens, real tokens).
        seconds: time for one system in one round; at least one unit of work is done.
        rounds: how often each system is measured.

    Returns:
        name → (nominal tokens/s, real tokens/s), the medians over all units of work. The first unit of each system
        (tracing, compilation, allocation) is not counted.

    Example::

        race({"kbert": lambda: (tokens, tokens)}, seconds=1.0, rounds=3)["kbert"]
    """
    rates = {name: [] for name in systems}
    for name, work in systems.items():
        _LOGGER.info("warming up %s", name)
        work()
    for number in range(rounds):
        for name, work in systems.items():
            start = now = time.perf_counter()
            while now - start < seconds:
                nominal, real = work()
                before, now = now, time.perf_counter()
                rates[name].append((nominal / (now - before), real / (now - before)))
            speed = f"{_median(rates[name], 0):14,.0f} tokens/s"
            _LOGGER.info("round %d/%d  %-28s %s", number + 1, rounds, name, speed)
    return {name: (_median(samples, 0), _median(samples, 1)) for name, samples in rates.items()}


def _median(samples, column):
    return statistics.median(sample[column] for sample in samples)


def summary(rates):
    """The common fields of results: kbert's rates, and the nominal rate of each other system."""
    peers = {name: nominal for name, (nominal, _) in rates.items() if name != "kbert"}
    nominal, real = rates["kbert"]
    return {"tokens_per_second": nominal, "real_tokens_per_second": real} | ({"peers": peers} if peers else {})
