"""The phases of a pre-training: sequence lengths in order, as the paper's 128 and then 512."""

import dataclasses
import math
from collections.abc import Callable, Iterable

from kbert.config import default_max_predictions


@dataclasses.dataclass(frozen=True)
class Phase:
    """A part of a pre-training with batches of one shape.

    Attributes:
        sequence_length: int, tokens of a row.
        share: float, of the run's steps or time.
        batch_size: int, rows of an update.
        max_predictions: int, the maximum number of masks in a row.

    Source: Devlin et al. 2018, appendix A.2.
    """

    sequence_length: int
    share: float
    batch_size: int
    max_predictions: int


def read_phases(
    given: Iterable, batch_size: int, max_predictions: int | None = None, default: Callable = default_max_predictions
) -> tuple[Phase, ...]:
    """Phases as they are given to `kbert.pretrain` or on the command line.

    Args:
        given: for each phase (sequence length, share), (sequence length, share, batch size) or all four fields of
            `Phase`; or the same as text, "128:0.9", "128:0.9:32" or "128:0.9:32:20".
        batch_size: of phases that give none.
        max_predictions: the same; None: by the length.
        default: function of the length, for those.

    Raises:
        ValueError: something else, numbers out of range, or shares whose sum is not 1.
    """
    given = list(given)
    phases = tuple(_read_phase(one, batch_size, max_predictions, default) for one in given)
    if not phases or not math.isclose(math.fsum(phase.share for phase in phases), 1.0, abs_tol=1e-6):
        raise ValueError(f"pretrain: the shares of `phases` must have the sum 1. Received: {given}")
    return phases


def read_ramp(given) -> tuple[int, float] | None:
    """A batch-size ramp, (first batch size, share of the run) or "8:0.3", or None."""
    if given is None:
        return None
    try:
        size, share = given.split(":") if isinstance(given, str) else given
        ramp = _whole(size), float(share)
    except (TypeError, ValueError):
        ramp = 0, 0.0
    if ramp[0] < 1 or not 0 < ramp[1] <= 1:
        raise ValueError(
            "pretrain: expected `batch_size_ramp` as the first batch size and the share of the run in which it rises, "
            f"such as 8:0.3. Received: {given!r}"
        )
    return ramp


def _read_phase(given, batch_size, max_predictions, default):
    try:
        length, share, *more = given.split(":") if isinstance(given, str) else given
        if len(more) > 2:
            raise ValueError
        length, share, more = _whole(length), float(share), [_whole(value) for value in more]
        if min(length, *more, 1) < 1 or not 0 < share <= 1:
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(
            "pretrain: expected each of `phases` as SEQUENCE_LENGTH:SHARE, with :BATCH_SIZE and :MAX_PREDICTIONS if "
            f"they differ, such as 128:0.9 or 512:0.1:64:80. Received: {given!r}"
        ) from None
    size, predictions = (*more, *(batch_size, max_predictions)[len(more) :])
    return Phase(length, share, size, predictions or default(length))


def _whole(value):
    number = int(value)
    if isinstance(value, bool) or number != float(value):
        raise ValueError
    return number
