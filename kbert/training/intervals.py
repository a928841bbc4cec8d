"""Intervals of steps that fit into each other: a checkpoint is written at the end of a window of logs."""

import math

_NEAR = 25  # steps


def log_interval(checkpoint_every: int, wanted: int) -> int:
    """The interval of logs for checkpoints at exactly `checkpoint_every` steps: the divisor nearest to `wanted`.

    Nearness is measured as a ratio: `log_interval(120, 50)` is 60. Of two equally near divisors the smaller is used.
    """
    small = [n for n in range(1, math.isqrt(checkpoint_every) + 1) if checkpoint_every % n == 0]
    divisors = sorted({*small, *(checkpoint_every // n for n in small)})
    return min(divisors, key=lambda n: max(n / wanted, wanted / n))


def resolve_log_interval(checkpoint_every: int, log_every: int | None) -> int:
    """`log_every`, or if that is None, the `log_interval` nearest to 100; ValueError if they do not fit."""
    if log_every is None:
        return log_interval(checkpoint_every, 100)
    check_intervals(checkpoint_every, log_every)
    return log_every


def log_interval_for(evaluations: list[int], checkpoint_every: int, wanted: int) -> int:
    """As `log_interval`, but no longer than until the first evaluation: a window has one evaluation's scores."""
    window = log_interval(checkpoint_every, wanted)
    if len(evaluations) > 1:
        first, (before, last) = evaluations[0], evaluations[-2:]  # the last may follow sooner than the others
        window = max(
            n
            for n in range(1, min(window, first) + 1)
            if checkpoint_every % n == 0 and math.ceil(before / n) < math.ceil(last / n)
        )
    return window


def without_neighbours(evaluations: list[int]) -> list[int]:
    """The evaluations but those just before the last: by less than half the steps to the first, at most 25."""
    *before, last = evaluations
    return [step for step in before if last - step >= min(evaluations[0] / 2, _NEAR)] + [last]


def check_milestones(keep_every: int | None, checkpoint_every: int) -> None:
    """Raises ValueError unless `keep_every` is None or a multiple of `checkpoint_every`."""
    if keep_every is not None and keep_every % checkpoint_every:
        raise ValueError(
            f"--keep-every must be a multiple of --checkpoint-every. Received: {keep_every} and {checkpoint_every}"
        )


def check_intervals(checkpoint_every: int, log_every: int) -> None:
    """Raises ValueError unless `checkpoint_every` is a multiple of `log_every`."""
    if checkpoint_every % log_every:
        below = checkpoint_every // log_every * log_every
        possible = " or ".join(str(n) for n in (below, below + log_every) if n)
        raise ValueError(
            f"--checkpoint-every must be a multiple of --log-every. Received: {checkpoint_every} and {log_every}. Give "
            f"--checkpoint-every {possible}, or --log-every {log_interval(checkpoint_every, log_every)}."
        )


def training_steps(examples: int, batch_size: int, epochs: float) -> int:
    """The number of weight updates, as in the original: int(examples / batch size × epochs), at least 1."""
    return max(1, int(examples / batch_size * epochs))
