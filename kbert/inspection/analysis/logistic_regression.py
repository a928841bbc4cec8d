"""Multinomial logistic regression on fixed features, in NumPy: the probe of a layer.

Shapes: n examples, f features, N labels.
"""

import collections
import dataclasses

import numpy as np

_MEMORY = 10  # pairs that L-BFGS keeps
_PATIENCE = 10  # iterations without a lower cross-entropy of other examples
_TOLERANCE = 1e-6  # largest entry of the gradient at the minimum
_SHORTEST = 1e-10  # step of the line search, at which there is nothing left to gain


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LogisticRegression:
    """A linear classifier of standardised features.

    Attributes:
        kernel: [f, N], bias: [N], mean: [f], scale: [f] of the features it was trained on.
        iterations: of L-BFGS, up to the one whose weights were kept.
    """

    kernel: np.ndarray
    bias: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    iterations: int

    def logits(self, features) -> np.ndarray:
        """Scores [n, N]."""
        return (np.asarray(features, self.kernel.dtype) - self.mean) / self.scale @ self.kernel + self.bias

    def predict(self, features) -> np.ndarray:
        """Class numbers [n]."""
        return self.logits(features).argmax(axis=-1)


def fit_logistic_regression(
    features, labels, num_classes: int, *, dev=None, l2: float = 1e-2, max_iterations: int = 200
) -> LogisticRegression:
    """Minimises the mean cross-entropy + l2 / 2 · |kernel|² with L-BFGS on all examples; the same every time.

    Args:
        features: floats [n, f].
        labels: ints [n] from 0.
        dev: (features, labels) of others: training ends when their cross-entropy has not fallen for 10 iterations, and
            the weights with the lowest are kept. None: it ends at the minimum.
        l2: strength of the penalty.

    Raises:
        ValueError: no examples, features that are not finite, labels beyond `num_classes`.

    Source: Liu and Nocedal 1989 for L-BFGS.
    """
    features, labels = np.asarray(features), np.asarray(labels)
    _check(features, labels, num_classes)
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 1e-6 * (np.abs(mean) + 1e-6), scale, 1.0)  # a constant tells nothing
    x, size = (features - mean) / scale, features.shape[1]
    objective = _objective(x, labels, num_classes, l2)
    best = {"loss": np.inf, "point": np.zeros(size * num_classes + num_classes, x.dtype), "iteration": 0}
    if dev is not None:
        dev_objective = _objective((np.asarray(dev[0]) - mean) / scale, np.asarray(dev[1]), num_classes, 0.0)

    def watch(iteration, point):
        loss = dev_objective(point, gradient=False)[0] if dev is not None else -iteration
        if loss < best["loss"]:
            best.update(loss=loss, point=point, iteration=iteration)
        return iteration - best["iteration"] >= _PATIENCE

    _lbfgs(objective, best["point"], max_iterations, watch)
    kernel, bias = best["point"][: size * num_classes].reshape(size, num_classes), best["point"][size * num_classes :]
    return LogisticRegression(kernel, bias, mean, scale, best["iteration"])


def _check(features, labels, num_classes):
    if features.ndim != 2 or not len(features) or labels.shape != features.shape[:1]:
        raise ValueError(
            "fit_logistic_regression: expected `features` [n, f] and as many `labels`, at least one. "
            f"Received: shapes {features.shape} and {labels.shape}"
        )
    if not np.isfinite(features).all():
        raise ValueError("fit_logistic_regression: expected finite `features`. Received: NaN or infinity among them")
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(
            f"fit_logistic_regression: expected `labels` from 0 to {num_classes - 1}. "
            f"Received: {labels.min()} to {labels.max()}"
        )


def _objective(x, labels, num_classes, l2):
    """Function of the flat weights → (loss, gradient)."""
    size, count, rows = x.shape[1] * num_classes, len(x), np.arange(len(x))

    def loss_and_gradient(point, gradient=True):
        kernel, bias = point[:size].reshape(-1, num_classes), point[size:]
        logits = x @ kernel + bias
        logits -= logits.max(axis=1, keepdims=True)
        exponents = np.exp(logits)
        total = exponents.sum(axis=1)
        nll = np.log(total) - logits[rows, labels]
        loss = nll.mean(dtype="float64") + 0.5 * l2 * float((kernel.astype("float64") ** 2).sum())
        if not gradient:
            return loss, None
        errors = exponents / total[:, np.newaxis]
        errors[rows, labels] -= 1.0
        errors /= count
        return loss, np.concatenate([(x.T @ errors + l2 * kernel).ravel(), errors.sum(axis=0)])

    return loss_and_gradient


def _lbfgs(function, point, max_iterations, watch):
    """Moves downhill from `point`; `watch(iteration, point)` sees every step, and ends it by returning True."""
    loss, gradient = function(point)
    pairs = collections.deque(maxlen=_MEMORY)  # (step, change of the gradient)
    for iteration in range(1, max_iterations + 1):
        if np.abs(gradient).max() < _TOLERANCE:
            return
        direction = _direction(gradient, pairs)
        step = 1.0 if pairs else min(1.0, 1.0 / float(np.abs(gradient).sum()))
        slope = float(gradient @ direction)
        new_loss, new_gradient = function(point + step * direction)
        while not new_loss <= loss + 1e-4 * step * slope:
            step /= 2
            if step < _SHORTEST:
                return
            new_loss, new_gradient = function(point + step * direction)
        moved, changed = step * direction, new_gradient - gradient
        point, loss, gradient = point + moved, new_loss, new_gradient
        if moved @ changed > 0:
            pairs.append((moved, changed))
        if watch(iteration, point):
            return


def _direction(gradient, pairs):
    """Downhill, scaled by an estimate of the inverse Hessian: the two loops of L-BFGS."""
    direction, shares = -gradient, []
    for moved, changed in reversed(pairs):
        share = (moved @ direction) / (moved @ changed)
        shares.append(share)
        direction = direction - share * changed
    if pairs:
        moved, changed = pairs[-1]
        direction = direction * ((moved @ changed) / (changed @ changed))
    for (moved, changed), share in zip(pairs, reversed(shares), strict=True):
        direction = direction + (share - (changed @ direction) / (moved @ changed)) * moved
    return direction
