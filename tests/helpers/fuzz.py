"""Damaged files in great number: mutations of sound ones, and what every reader owes its caller when it meets them."""

import contextlib
import pathlib
import random
import re
import signal
from collections.abc import Callable, Iterator

_NUMBERS = (*b'-1 0 1e999 NaN null true "x" [] {}'.split(), b"9" * 400, b"2147483648", b"[" * 300)


class TooSlow(BaseException):
    """A reader went past its time. No Exception, so that no reader mends it."""


def mutations(contents: list[bytes], count: int, seed: int = 0) -> Iterator[bytes]:
    """`count` damaged versions of sound contents: flipped bits, cut, doubled, moved and foreign parts, other numbers.

    Mutation i depends on `contents`, `seed` and i alone.
    """
    for number in range(count):
        source = random.Random(f"{seed} {number}")
        content = bytearray(source.choice(contents))
        for _ in range(source.choice((1, 1, 1, 2, 5))):
            _mutate(content, source, contents)
        yield bytes(content)


def _mutate(content, source, contents):
    first = source.randrange(len(content) + 1)
    last = min(len(content), first + source.choice((1, 2, 4, 8, 64, 1024)))
    match source.randrange(9):
        case 0 if content:
            content[first % len(content)] ^= 1 << source.randrange(8)
        case 1:
            content[first:last] = source.randbytes(last - first)
        case 2:
            del content[first:]
        case 3:
            del content[first:last]
        case 4:
            content[first:first] = content[first:last] * source.choice((1, 2, 50))
        case 5:
            other = source.choice(contents)
            start = source.randrange(len(other) + 1)
            content[first:last] = other[start : start + source.choice((1, 8, 256))]
        case 6:
            content[first:last] = source.choice((b"\x00", b"\xff")) * (last - first)
        case 7:  # a field of eight bytes: a length, an offset
            value = source.choice((0, 1, 255, 2**31 - 1, 2**31, 2**32, 2**40, 2**63 - 1, 2**64 - 1))
            content[first : first + 8] = value.to_bytes(8, source.choice(("little", "big")))
        case 8:
            _replace_number(content, source)


def _replace_number(content, source):
    """Another value in place of a run of digits, as text formats and headers have them."""
    starts = [i for i in range(len(content)) if 48 <= content[i] < 58][:10_000]
    if starts:
        first = last = source.choice(starts)
        while last < len(content) and 48 <= content[last] < 58:
            last += 1
        content[first:last] = source.choice(_NUMBERS)


def check_reader(
    read: Callable[[pathlib.Path], object],
    path: pathlib.Path,
    contents: list[bytes],
    count: int,
    *,
    seed: int = 0,
    seconds: float = 20.0,
    megabytes: float = 300.0,
    named: str | None = None,
) -> dict[str, int]:
    """Reads `count` damaged files: each is read, or ends in a ValueError or OSError that names the file, in bounds.

    Args:
        read: function of a path that reads all there is; for files of a directory it reads the directory.
        path: where the damaged files are written, one after the other.
        contents: sound contents to damage.
        count, seed: how many, and which.
        seconds: of processor time, of one file.
        megabytes: by which the peak of the process's memory may grow over all of them.
        named: what messages must hold; None: the name of `path`.

    Returns:
        how many were "read" and how many "refused".

    Raises:
        AssertionError: another error, no name in the message, too slow, too much memory; says which mutation.
    """
    path = pathlib.Path(path)
    named = path.name if named is None else named
    path.write_bytes(contents[0])
    read(path)  # the sound one is read, and what is loaded once is loaded
    peak = peak_memory(begin=True)
    found = {"read": 0, "refused": 0}
    for number, content in enumerate(mutations(contents, count, seed)):
        path.write_bytes(content)
        try:
            with _time_limit(seconds):
                read(path)
            found["read"] += 1
        except (ValueError, OSError) as error:
            found["refused"] += 1
            assert named in str(error), f"mutation {number} of seed {seed}: {named!r} is not named: {error!r}"
        except TooSlow:
            raise AssertionError(f"mutation {number} of seed {seed}: more than {seconds} s") from None
        except Exception as error:
            raise AssertionError(f"mutation {number} of seed {seed}: {type(error).__name__}: {error}") from error
        grown = peak_memory() - peak
        assert grown < megabytes, f"mutation {number} of seed {seed}: {grown:.0f} MB more at the peak"
    return found


def peak_memory(begin: bool = False) -> float:
    """MB that this process has taken at most (Linux); `begin`: from now on."""
    if begin:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


@contextlib.contextmanager
def _time_limit(seconds):
    def stop(*_):
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)  # of processor time, which other processes do not take
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
