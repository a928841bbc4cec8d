"""Systems that take turns, each in a process of its own: a varying load of the machine then affects all of them alike.

Shared by the scripts in this folder. A system is a function, at the top level of a module, that prepares the work and
returns another one. That does some units of work and returns (seconds, processor seconds) of each.
"""

import argparse
import importlib.util
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

TUNED = {  # torch keeps its tensors, on huge pages: by default it maps and clears every large tensor of every step anew
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "20000000000",
    "MALLOC_TOP_PAD_": "268435456",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


class Measured(NamedTuple):
    """What a system's turns took: lists of seconds and of processor seconds, and the most memory in MiB."""

    seconds: list[float]
    processor: list[float]
    memory: float


def take_turns(systems: Mapping[str, Callable], rounds: int, seconds: float) -> dict[str, Measured]:
    """Runs each system for some seconds, one after the other, `rounds` times. A first round is not counted.

    A system whose name contains "tuned" has the environment TUNED.
    """
    context = multiprocessing.get_context("spawn")
    pipes, found = {}, {name: Measured([], [], 0.0) for name in systems}
    for name, prepare in systems.items():
        pipes[name], other = context.Pipe()
        before = dict(os.environ)
        os.environ.update(TUNED if "tuned" in name else {})
        context.Process(target=_serve, args=(other, prepare), daemon=True).start()
        os.environ.clear()
        os.environ.update(before)
        other.close()
    for number in range(rounds + 1):
        for name, pipe in pipes.items():
            try:
                pipe.send(seconds if number else 0.0)
                times, memory = pipe.recv()
            except (EOFError, ConnectionError):
                raise RuntimeError(f"{name}: its process ended") from None
            if number:
                found[name].seconds.extend(wall for wall, _ in times)
                found[name].processor.extend(processor for _, processor in times)
                found[name] = found[name]._replace(memory=memory)
    for pipe in pipes.values():
        pipe.close()
    return found


def _serve(pipe, prepare):
    work = prepare()
    while True:
        try:
            left = pipe.recv()
        except EOFError:
            return
        times, end = [], time.perf_counter() + left
        while not times or time.perf_counter() < end:
            times += work()
        pipe.send((times, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def timed(function: Callable) -> Callable:
    """The work of a system that calls a function."""

    def work():
        start, processor = time.perf_counter(), time.process_time()
        function()
        return [(time.perf_counter() - start, time.process_time() - processor)]

    return work


def report(found: Mapping[str, Measured], units: float, unit: str = "tokens") -> None:
    """Prints the speed of each system, by wall and by processor time; of one unit of work, `units` tokens or texts."""
    first = next(iter(found))
    print(f"| system | {unit}/s | {unit}/s of processor time | MiB | {first} is |\n|---|---|---|---|---|")
    for name, measured in found.items():
        wall, processor = statistics.median(measured.seconds), statistics.median(measured.processor)
        ratio = wall / statistics.median(found[first].seconds)
        speeds = f"{units / wall:,.0f} | {units / max(processor, 1e-9):,.0f}"
        print(f"| {name} | {speeds} | {measured.memory:,.0f} | {ratio:.2f} times as fast |")


def arguments(description: str, **defaults) -> argparse.ArgumentParser:
    """A parser with the flags of all benchmarks, and one for each default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each system")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--peers", action="store_true", help="also other libraries that are installed")
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    return parser


def is_installed(*packages: str) -> bool:
    """Whether all of these packages can be imported."""
    return all(importlib.util.find_spec(name) for name in packages)
