"""LAMB, for large batches."""

import keras
from keras import ops

from kbert.keras_compat import Tensor
from kbert.optim.adamw import AdamW


@keras.saving.register_keras_serializable("kbert")
class Lamb(AdamW):
    """AdamW that scales the update of each variable to the variable's norm (LAMB), for batches of thousands.

    For each weight w, with m and v of Adam with bias correction::

        update = m / (sqrt(v) + epsilon) + weight_decay * w
        w = w - learning_rate * |w| / |update| * update

    Variables that are not decayed (LayerNorm's and biases) are updated without the ratio, as in the authors' code. So
    is a variable if its norm or the norm of its update is 0. `keras.optimizers.Lamb` leaves the decay out of the ratio
    and has a ratio for every variable.

    Args:
        learning_rate, weight_decay, beta_1, beta_2, epsilon, bias_correction, **kwargs: as for `kbert.AdamW`, with the
            bias correction on by default.

    Raises:
        ValueError: as `kbert.AdamW`.

    Source: You et al. 2020, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", algorithm 2.

    Example::

        model.compile(Lamb(WarmupLinearDecay(peak=1.76e-3, warmup_steps=2000, total_steps=31_250)))
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-3,
        weight_decay: float = 0.01,
        bias_correction: bool = True,
        name: str = "lamb",
        **kwargs,
    ):
        super().__init__(learning_rate, weight_decay, bias_correction=bias_correction, name=name, **kwargs)

    def build(self, variables) -> None:
        if not self.built:
            self._has_ratio = [self.is_decayed(variable) for variable in variables]
        super().build(variables)

    def last_update(self, variable: keras.Variable, learning_rate: float) -> Tensor:
        """As `kbert.AdamW.last_update`, to first order: the ratio of norms is taken after the step."""
        rate, decay = self._last_rate(variable, learning_rate)
        update = self._last_adam(variable)
        if self._has_ratio[self.index_of(variable)]:
            weight = ops.convert_to_tensor(variable)
            update = update + decay * weight
            rate = rate * _trust_ratio(weight, update)
        return rate * update

    def _update(self, variable, gradient, scale, learning_rate, correction):
        index = self.index_of(variable)
        momentum = self._momentums[index]
        velocity = self._velocities[index]
        scale, rate, correction = (ops.cast(x, variable.dtype) for x in (scale, learning_rate, correction))
        gradient = ops.cast(gradient, variable.dtype) * scale
        weight = ops.convert_to_tensor(variable)
        m = self.beta_1 * ops.convert_to_tensor(momentum) + (1.0 - self.beta_1) * gradient
        v = self.beta_2 * ops.convert_to_tensor(velocity) + (1.0 - self.beta_2) * ops.square(gradient)
        update = correction * m / (ops.sqrt(v) + self.epsilon)
        if self._has_ratio[index]:
            update = update + self._decays[index] * weight
            rate = rate * _trust_ratio(weight, update)
        for target, value in ((variable, weight - rate * self._factors[index] * update), (momentum, m), (velocity, v)):
            self.assign(target, value)


def _trust_ratio(weight, update):
    norm = ops.sqrt(ops.sum(ops.square(weight)))
    length = ops.sqrt(ops.sum(ops.square(update)))
    both = ops.logical_and(norm > 0.0, length > 0.0)
    return ops.where(both, norm / ops.where(both, length, 1.0), 1.0)
