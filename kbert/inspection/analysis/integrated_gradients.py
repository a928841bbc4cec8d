"""Integrated gradients: how much each input has to do with the change of an output, so that it adds up.

Shapes: `...` those of the input.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

_STEPS = (16, 32, 64, 128, 256)  # points on the path, until the sum is right
_BATCH = 16  # points at a time


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class IntegratedGradients:
    """Attributions and their check.

    Attributes:
        attributions: float64 [...], of each entry of the input.
        start, end: the output at the baseline and at the input.
        steps: points at which the gradient was taken.
        tolerance: of `error`.
    """

    attributions: np.ndarray
    start: float
    end: float
    steps: int
    tolerance: float

    @property
    def error(self) -> float:
        """Sum of the attributions less the difference of the outputs, as a share of that difference (or of 0.01)."""
        difference = self.end - self.start
        return abs(float(self.attributions.sum()) - difference) / max(abs(difference), 0.01)

    @property
    def is_complete(self) -> bool:
        """Whether the sum of the attributions is the difference of the outputs within `tolerance`."""
        return self.error <= self.tolerance


def integrated_gradients(function: Callable, point, baseline, *, tolerance: float = 0.01) -> IntegratedGradients:
    """Integrates the gradient on the straight line from `baseline` to `point` (Gauss-Legendre).

    The number of steps is doubled, from 16 to 256, until the attributions add up.

    Args:
        function: of points [n, ...] → (outputs [n], their gradients [n, ...]), NumPy arrays; n is at most 16.
        point, baseline: floats [...].
        tolerance: how much the sum of the attributions may differ from the difference of the outputs, as its share.

    Returns:
        `IntegratedGradients`; look at `is_complete`, which is False where 256 steps were too few.

    Source: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks"; proposition 1 is completeness.
    """
    point, baseline = np.asarray(point), np.asarray(baseline)
    if point.shape != baseline.shape:
        raise ValueError(
            f"integrated_gradients: `baseline` must have the shape of `point`, {point.shape}. "
            f"Received: {baseline.shape}"
        )
    (start, end), _ = function(np.stack([baseline, point]))
    for steps in _STEPS:
        places, weights = np.polynomial.legendre.leggauss(steps)
        places, weights = (places + 1) / 2, weights / 2  # from [-1, 1] to [0, 1]
        mean = np.zeros(point.shape)
        for first in range(0, steps, _BATCH):
            some = slice(first, first + _BATCH)
            where = places[some].reshape(-1, *[1] * point.ndim)
            _, gradients = function((baseline + where * (point - baseline)).astype(point.dtype))
            mean += np.tensordot(weights[some], np.asarray(gradients, "float64"), axes=1)
        found = IntegratedGradients(mean * (point - baseline), float(start), float(end), steps, tolerance)
        if found.is_complete:
            break
    return found
