"""AdamW as BERT was trained with it."""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from kbert.checks import check_option
from kbert.keras_compat import OptimizerOfAll, Tensor, merge_replicas
from kbert.optim.replicas import count_replicas, sum_over_replicas
from kbert.options import FractionBelowOne, NonNegative, NonzeroFraction, Positive
from kbert.xla import compiled, is_worth_compiling

if TYPE_CHECKING:
    import tensorflow as tf


_TYPES = {
    "learning_rate": NonNegative,
    "weight_decay": NonNegative,
    "beta_1": FractionBelowOne,
    "beta_2": FractionBelowOne,
    "epsilon": Positive,
    "global_clipnorm": Positive,
    "layer_decay": NonzeroFraction,
}
_COMPILED_FROM = 2**16  # elements; calling a compiled kernel for fewer costs more than it saves


@keras.saving.register_keras_serializable("kbert")
class AdamW(OptimizerOfAll):
    """Adam with decoupled weight decay, as the original BERT code has it: no bias correction, epsilon outside the root.

    For each weight w with gradient g, after clipping by the global norm::

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g * g
        w = w - learning_rate * (m / (sqrt(v) + epsilon) + weight_decay * w)

    Every weight is decayed except where its path contains one of `exclude_from_decay`: LayerNorm's gamma and beta, and
    biases. The embeddings and the heads' kernels are therefore decayed, as in the original. A gradient that comes as
    indexed slices (an embedding lookup) is made dense first, so that decay and moments reach every row.

    Under `tf.distribute` Keras clips each replica's part of the gradient, so that the threshold depends on the number
    of replicas. Here `clip_scope="global"` clips the sum over the replicas: any number of them gives the update of one.
    `clip_scope="replica"` does as the original: each replica's own gradient is clipped, and the results are summed.

    Args:
        learning_rate: at least 0, or a schedule such as `WarmupLinearDecay`.
        weight_decay: at least 0, added to the update before it is multiplied by the learning rate.
        beta_1, beta_2, epsilon: as above.
        bias_correction: whether to multiply m / (sqrt(v) + epsilon) at step t = 1, 2 ... by sqrt(1 - beta_2^t) /
            (1 - beta_1^t) (Kingma and Ba 2015, end of section 2).
        exclude_from_decay: a variable whose path contains any of these is not decayed; "=PATH" stands for a whole path.
        global_clipnorm: above 0. None: no clipping.
        clip_scope: "global" or "replica".
        layer_decay: in (0, 1], the factor of the learning rate from one layer to the one below. The pooler and
            everything after the encoder have 1, its last block has `layer_decay`, ... and the embeddings have
            layer_decay^(L + 1), where L is the number of blocks up to the last trainable one. None: one rate for all.
            (Not from the BERT paper: Howard and Ruder 2018, section 3.2; Clark et al. 2020, appendix B.)
        **kwargs: arguments of every Keras optimizer: use_ema, gradient_accumulation_steps (schedules then count
            batches, as with any Keras optimizer) ...

    Attributes:
        gradient_norm: float32 variable [], the global norm before clipping at the last step. With
            `clip_scope="replica"` it is that of the first replica. It exists once built.
        gradient_norms: float32 variable, the norm before clipping of each trained variable alone. It exists once built.
        first_non_finite: int32 variable [], the first update whose `gradient_norm` was infinite or NaN, counted from 1,
            or 0 if there was none. It exists once built.

    Raises:
        ValueError: an unknown `clip_scope`, a number outside its range, or another kind of clipping.

    Source: Devlin et al. 2018, appendix A.2; google-research/bert, optimization.py.

    Example::

        schedule = WarmupLinearDecay(peak=1e-4, warmup_steps=10_000, total_steps=1_000_000)
        model.compile(AdamW(schedule))
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-4,
        weight_decay: float | None = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = False,
        exclude_from_decay: Sequence[str] = ("layer_norm", "bias"),
        global_clipnorm: float | None = 1.0,
        clip_scope: str = "global",
        layer_decay: float | None = None,
        name: str = "adamw",
        **kwargs,
    ):
        owner = type(self).__name__
        _check_arguments(owner, exclude_from_decay, clip_scope, kwargs)
        optional = {"weight_decay": weight_decay, "global_clipnorm": global_clipnorm, "layer_decay": layer_decay}
        optional |= {"learning_rate": None if callable(learning_rate) else learning_rate}  # as schedules are
        numbers = {key: value for key, value in optional.items() if value is not None}
        numbers |= {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}
        for key, value in numbers.items():
            numbers[key] = check_option(owner, key, value, _TYPES[key])
        super().__init__(
            learning_rate=numbers.get("learning_rate", learning_rate),
            weight_decay=numbers.get("weight_decay", 0.0),
            global_clipnorm=numbers.get("global_clipnorm"),
            name=name,
            **kwargs,
        )
        self.beta_1, self.beta_2, self.epsilon = (numbers[key] for key in ("beta_1", "beta_2", "epsilon"))
        self.bias_correction = check_option(owner, "bias_correction", bias_correction, bool)
        self.exclude_from_decay = tuple(exclude_from_decay)
        self.clip_scope = clip_scope
        self.layer_decay = numbers.get("layer_decay")

    def build(self, variables) -> None:
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(variables, ["momentum", "velocity"])
        self.gradient_norm = self.add_variable((), name="gradient_norm", aggregation="only_first_replica")
        self.first_non_finite = self.add_variable(
            (), dtype="int32", name="first_non_finite", aggregation="only_first_replica"
        )
        self.gradient_norms = self.add_variable(
            (len(variables),), name="gradient_norms", aggregation="only_first_replica"
        )
        self._paths = [_path(variable) for variable in variables]
        self._decays = [self.weight_decay if self.is_decayed(variable) else 0.0 for variable in variables]
        self._factors = layer_factors(self._paths, self.layer_decay)

    def is_decayed(self, variable: "keras.Variable | tf.Variable") -> bool:
        """Whether weight decay applies to this variable."""
        path = _path(variable)
        return not any(part in path or part == f"={path}" for part in self.exclude_from_decay)

    def gradient_norms_by_path(self) -> dict[str, float]:
        """Path of each trained variable → norm of its gradient before clipping at the last step."""
        norms = self.gradient_norms.numpy()
        return {path: float(norm) for path, norm in zip(self._paths, norms, strict=True)}

    def last_update(self, variable: keras.Variable, learning_rate: float) -> Tensor:
        """What the last step took from a variable, computed from its value and the moments after the step.

        Args:
            variable: a variable that the optimizer was built with.
            learning_rate: the rate of the last step.

        Returns:
            A tensor of the variable's shape.

        Example::

            keras.ops.norm(optimizer.last_update(model.trainable_variables[0], 1e-4))
        """
        rate, decay = self._last_rate(variable, learning_rate)
        # w_before - rate * (adam + decay * w_before) = w: solved for the step.
        return rate / (1.0 - rate * decay) * (self._last_adam(variable) + decay * _dense(variable))

    def _last_rate(self, variable, learning_rate):
        index = self.index_of(variable)
        return learning_rate * self._factors[index], self._decays[index]

    def _last_adam(self, variable):
        """The last step's m / (sqrt(v) + epsilon), with bias correction where there is one."""
        index = self.index_of(variable)
        step = int(ops.convert_to_numpy(self.iterations))
        correction = (1.0 - self.beta_2**step) ** 0.5 / (1.0 - self.beta_1**step) if self.bias_correction else 1.0
        return correction * _dense(self._momentums[index]) / (ops.sqrt(_dense(self._velocities[index])) + self.epsilon)

    def exclude_from_weight_decay(
        self, var_list: Iterable[keras.Variable] | None = None, var_names: Iterable[str] | None = None
    ) -> None:
        """Excludes more variables from weight decay; they are saved with the optimizer.

        Args:
            var_list: variables.
            var_names: parts of paths.

        Raises:
            ValueError: the optimizer is built already.
        """
        if self.built:
            raise ValueError("AdamW.exclude_from_weight_decay: must be called before the optimizer is built.")
        paths = [f"={_path(variable)}" for variable in var_list or ()]
        self.exclude_from_decay = (*self.exclude_from_decay, *paths, *(var_names or ()))

    def update_all(
        self, grads: Sequence[Tensor], trainable_variables: Sequence[keras.Variable], learning_rate: Tensor
    ) -> None:
        """Updates all variables by a replica's gradients, which are clipped after they are summed.

        Keras' `apply` calls it at each step (`kbert.keras_compat.OptimizerOfAll`) with the schedule's value there.

        Args:
            grads: a gradient for each variable.
            trainable_variables: the variables.
            learning_rate: the rate of this step.
        """
        indices = [self.index_of(variable) for variable in trainable_variables]
        grads, scale = self._sum_and_clip([_dense(gradient) for gradient in grads], indices)
        scalars = (scale, _dense(learning_rate), self._correction())
        if keras.backend.backend() != "tensorflow":
            for gradient, variable in zip(grads, trainable_variables, strict=True):
                self._update(variable, gradient, *scalars)
            return
        import tensorflow as tf

        variables = [v.value if isinstance(v, keras.Variable) else v for v in trainable_variables]
        # In a user's tf.function, `extended.update` would have AutoGraph rewrite what it calls.
        update = tf.autograph.experimental.do_not_convert(self._update)

        def update_everywhere(distribution, grads, *scalars):
            for gradient, variable in zip(grads, variables, strict=True):
                distribution.extended.update(variable, update, args=(gradient, *scalars), group=False)

        merge_replicas(update_everywhere, grads, *scalars)

    def _sum_and_clip(self, grads, indices):
        """The gradients summed over replicas, and the factor that brings their norm within bounds."""
        replicas = count_replicas()
        if replicas == 1 or self.clip_scope == "global":
            grads = sum_over_replicas(grads)
            return grads, self._clip_factor(grads, indices)
        # Under `tf.distribute` a loss is part of the mean over replicas: times their number it is the replica's own.
        scale = replicas * self._clip_factor(grads, indices, replicas)
        return sum_over_replicas([gradient * ops.cast(scale, gradient.dtype) for gradient in grads]), ops.ones(())

    def _clip_factor(self, grads, indices, replicas=1):
        """The factor for gradients that are a `replicas`-th of a replica's own."""
        squares = ops.stack([sum_of_squares(gradient) for gradient in grads])
        norm = ops.sqrt(ops.sum(squares)) * replicas
        self.gradient_norm.assign(norm)
        if indices != list(range(len(self._paths))):  # Keras leaves out variables without a gradient
            by_index = dict(zip(indices, ops.unstack(squares), strict=True))
            squares = ops.stack([by_index.get(index, ops.zeros(())) for index in range(len(self._paths))])
        self.gradient_norms.assign(ops.sqrt(squares) * replicas)
        first = ops.convert_to_tensor(self.first_non_finite)
        is_first = ops.logical_and(first == 0, ops.logical_not(ops.isfinite(norm)))
        self.first_non_finite.assign(ops.where(is_first, ops.cast(self.iterations, "int32") + 1, first))
        if self.global_clipnorm is None:
            return ops.ones(())
        return self.global_clipnorm / ops.maximum(norm, self.global_clipnorm)

    def _correction(self):
        if not self.bias_correction:
            return ops.ones(())
        step = ops.cast(self.iterations + 1, "float32")
        return ops.sqrt(1.0 - ops.power(self.beta_2, step)) / (1.0 - ops.power(self.beta_1, step))

    def update_step(self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor) -> None:
        self._update(variable, gradient, 1.0, learning_rate, self._correction())

    def _update(self, variable, gradient, scale, learning_rate, correction):
        index = self.index_of(variable)
        targets = (variable, self._momentums[index], self._velocities[index])
        if self._factors[index] != 1.0:
            learning_rate = learning_rate * self._factors[index]
        constants = (self._decays[index], self.beta_1, self.beta_2, self.epsilon)
        new_values = _compiled(*constants) if is_worth_compiling(gradient, _COMPILED_FROM) else _plain(*constants)
        scalars = [ops.cast(scalar, variable.dtype) for scalar in (scale, learning_rate, correction)]
        values = new_values(*[_dense(target) for target in targets], ops.cast(gradient, variable.dtype), *scalars)
        for target, value in zip(targets, values, strict=True):
            self.assign(target, value)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "exclude_from_decay": list(self.exclude_from_decay),
            "clip_scope": self.clip_scope,
            "layer_decay": self.layer_decay,
        }


def _check_arguments(owner, exclude_from_decay, clip_scope, others):
    if clip_scope not in ("global", "replica"):
        raise ValueError(f'{owner}: `clip_scope` must be "global" or "replica". Received: {clip_scope!r}')
    if isinstance(exclude_from_decay, str):
        raise ValueError(f"{owner}: `exclude_from_decay` must be a list of strings. Received: {exclude_from_decay!r}")
    other_clips = {name: others[name] for name in ("clipnorm", "clipvalue") if others.get(name) is not None}
    if other_clips:
        raise ValueError(f"{owner}: clips by the global norm; use `global_clipnorm`. Received: {other_clips}")


def _path(variable):
    return getattr(variable, "path", variable.name)  # a plain tf.Variable has a name only


def _dense(value):
    """A variable's value or a gradient as one dense tensor. Repeated rows of indexed slices are added up."""
    if isinstance(value, keras.Variable):
        value = value.value
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.convert_to_tensor(value)  # `ops.convert_to_tensor` returns a variable itself
    return value


def sum_of_squares(value: Tensor) -> Tensor:
    """The sum of the squares of a tensor's numbers, float32 []."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return 2.0 * tf.nn.l2_loss(tf.cast(value, tf.float32))  # one pass without a copy, which the square would be
    return ops.sum(ops.square(ops.cast(value, "float32")))


def _new_values(weight, momentum, velocity, gradient, scale, learning_rate, correction, *, decay, beta_1, beta_2, eps):
    gradient = gradient * scale
    momentum = beta_1 * momentum + (1.0 - beta_1) * gradient
    velocity = beta_2 * velocity + (1.0 - beta_2) * ops.square(gradient)
    update = correction * momentum / (ops.sqrt(velocity) + eps)
    return weight - learning_rate * (update + decay * weight), momentum, velocity


def _plain(decay, beta_1, beta_2, epsilon):
    return functools.partial(_new_values, decay=decay, beta_1=beta_1, beta_2=beta_2, eps=epsilon)


@functools.cache
def _compiled(decay, beta_1, beta_2, epsilon):
    """The update as one fused kernel: on a CPU it takes less than half the time, being bound by memory."""
    return compiled(_plain(decay, beta_1, beta_2, epsilon))


_BLOCK = re.compile(r"(?:^|/)encoder_block_(\d+)/")
_EMBEDDINGS = re.compile(r"(?:^|/)embeddings/")


def layer_factors(paths: Sequence[str], layer_decay: float | None) -> list[float]:
    """The factor of each variable's learning rate."""
    if layer_decay is None:
        return [1.0] * len(paths)
    blocks = [match and int(match[1]) for match in map(_BLOCK.search, paths)]
    above = max((number + 1 for number in blocks if number is not None), default=0)  # L
    below_top = {None: 0} | {number: above - number for number in range(above)}
    return [
        layer_decay ** (above + 1 if _EMBEDDINGS.search(path) else below_top[number])
        for path, number in zip(paths, blocks, strict=True)
    ]
