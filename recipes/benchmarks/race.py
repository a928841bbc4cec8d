"""Measures several systems in turn, so that varying load affects all of them alike; each peer at its best setting.

A runner is a function of seconds that works for so long, one unit of work at least, and returns (nominal tokens/s, real
tokens/s) for each unit.
"""

import logging
import statistics
import time

_LOGGER = logging.getLogger("kbert")


def race(runners, seconds, rounds):
    """Runs each system for `seconds`, one after the other, `rounds` times.

    Returns:
        name → (nominal tokens/s, real tokens/s), the medians over all units of work. A first call of each system
        (tracing, compilation, allocation) is not counted.
    """
    rates = {name: [] for name in runners}
    for name, run in runners.items():
        _LOGGER.info("warming up %s", name)
        run(0.0)
    for number in range(rounds):
        for name, run in runners.items():
            rates[name] += run(seconds)
            _LOGGER.info(
                "round %d/%d  %-28s %14.0f tokens/s", number + 1, rounds, name, statistics.median(column(rates[name]))
            )
    return {name: tuple(statistics.median(column(samples, i)) for i in (0, 1)) for name, samples in rates.items()}


def fastest_setting(name, runners, seconds):
    """The setting in which a system is fastest, after a trial of each of them."""
    speeds = {}
    for setting, run in runners.items() if len(runners) > 1 else ():
        run(0.0)
        speeds[setting] = statistics.median(column(run(seconds)))
        _LOGGER.info("trial  %s, %s: %.0f tokens/s", name, setting, speeds[setting])
    return max(speeds, key=speeds.get) if speeds else next(iter(runners))


def with_and_without_xla(runner):
    """The settings of a system that XLA may compile, for `fastest_setting`; `runner`: function of `jit_compile`."""
    return {f"XLA {'on' if jit else 'off'}": runner(jit) for jit in (False, True)}


def timed(work):
    """A runner of a function that does one unit of work and returns (nominal tokens, real tokens)."""

    def run(seconds):
        rates = []
        start = now = time.perf_counter()
        while not rates or now - start < seconds:
            nominal, real = work()
            before, now = now, time.perf_counter()
            rates.append((nominal / (now - before), real / (now - before)))
        return rates

    return run


def column(samples, index=0):
    """One of the two rates of each unit of work."""
    return [sample[index] for sample in samples]


def summary(rates):
    """The common fields of results: kbert's rates, and the nominal rate of each other system."""
    peers = {name: nominal for name, (nominal, _) in rates.items() if name != "kbert"}
    nominal, real = rates["kbert"]
    return {"tokens_per_second": nominal, "real_tokens_per_second": real} | ({"peers": peers} if peers else {})
