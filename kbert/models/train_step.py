"""A training step in parts: micro-batches whose gradients add up, and a gradient that XLA compiles in each replica.

Keras compiles a step together with the code of its strategy, which XLA cannot run with several replicas. The gradient
accumulation of its optimizers fails under strategies, and takes the mean of micro-batches as if each had as many
predictions (Keras 3.15). Here the parts share the weights of the whole batch, so that any number of micro-batches and
replicas gives the gradient of the batch.

On JAX devices share every micro-batch, which `keras.distribution` and JAX's compiler arrange.

Shapes: B batch (of a replica; on JAX of all devices), H hidden size, m micro-batches.
"""

import contextlib
import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from kbert.checks import check_option
from kbert.keras_compat import Tensor, base_optimizer, strategy_of
from kbert.optim.losses import WeightedMeanLoss, WholeBatch
from kbert.optim.replicas import count_replicas, sum_over_replicas
from kbert.options import Count

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel


def train_in_parts(model: "BertModel", data: tuple, micro_batches: int, compiled: bool) -> dict:
    """One training step on TensorFlow, inside a replica: the metrics after it.

    `data` are (inputs, labels, sample weights) of this replica. `micro_batches`, m, must divide B. If `compiled`, XLA
    compiles the forward and the backward pass. The exchange between replicas and the optimizer's update stay outside.
    """
    import tensorflow as tf

    inputs, labels, weights = data if len(data) == 3 else (*data, None)
    rows = check_rows(model, inputs, micro_batches)
    # Micro-batch i has the rows i, i + m ...
    data = keras.tree.map_structure(lambda column: _divided(column, rows, micro_batches), (inputs, labels, weights))
    variables = model.trainable_weights
    reached = [True] * len(variables)  # by the loss; weights that it does not reach have no gradient, as in Keras' step
    totals = total_weights(model, inputs, labels, weights)

    def gradient(data, totals):
        def of_part(part):
            micro_batch = keras.tree.map_structure(lambda column: None if column is None else column[part], data)
            with shares_of(model, totals, micro_batches):
                return _gradient(model, *micro_batch, variables)

        return [total / micro_batches for total in _sum_of_parts(of_part, variables, micro_batches, reached)]

    if compiled:
        gradient = tf.function(gradient, jit_compile=True, autograph=False)
    gradients = gradient(data, totals)
    model.optimizer.apply(_of_reached(gradients, reached), variables)
    return model.get_metrics_result()


def train_in_parts_on_jax(model: "BertModel", state: tuple, data: tuple, micro_batches: int) -> tuple[dict, tuple]:
    """One training step: the metrics after it, and the new state.

    `state` are the values of the trainable, the other, the optimizer's and the metrics' variables, as in Keras' JAX
    trainer. `data` are (inputs, labels, sample weights). `micro_batches`, m, must divide B.
    """
    import jax

    trainable, others, optimizer_variables, metrics = (list(values) for values in state)
    inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
    rows = check_rows(model, inputs, micro_batches)
    totals = total_weights(model, inputs, labels, weights)
    gradient = jax.grad(model.compute_loss_and_updates, has_aux=True)

    def divided(column):  # micro-batch i has the rows i, i + m ...: of every device's rows equally many
        return column.reshape(rows // micro_batches, micro_batches, *column.shape[1:]).swapaxes(0, 1)

    def add_part(carried, part):
        sums, others, metrics = carried
        with shares_of(model, totals, micro_batches):
            gradients, (loss, outputs, others, metrics) = gradient(
                trainable, others, metrics, *part, training=True, optimizer_variables=optimizer_variables
            )
        logs, metrics = _updated_metrics(model, metrics, loss, outputs, part)
        sums = [total + gradient for total, gradient in zip(sums, gradients, strict=True)]
        return (sums, list(others), metrics), logs

    zeros = [jax.numpy.zeros_like(value) for value in trainable]
    parts = jax.tree.map(divided, (inputs, labels, weights))
    (sums, others, metrics), logs = jax.lax.scan(add_part, (zeros, others, metrics), parts)
    gradients = [total / micro_batches for total in sums]
    trainable, optimizer_variables = model.optimizer.stateless_apply(optimizer_variables, gradients, trainable)
    return jax.tree.map(lambda values: values[-1], logs), (trainable, others, optimizer_variables, metrics)


def train_with_cached_embeddings(model: "BertModel", data: tuple, parts: int) -> dict:
    """One training step on TensorFlow, inside a replica: the metrics after it.

    The embeddings are computed part by part without their activations, then the gradient of the loss with respect to
    them, and then each part once more, with the same dropout, to carry its rows of that gradient to the weights.

    The model has the output ``embedding`` [B, H]. `data` are (inputs, labels, sample weights) of this replica. `parts`,
    m, must divide B.

    Source: Gao et al. 2021, "Scaling deep contrastive learning batch size under memory limited setup".
    """
    import tensorflow as tf

    inputs, labels, weights = data if len(data) == 3 else (*data, None)
    rows = check_rows(model, inputs, parts)

    def divided(column):  # [B, …] → [m, B / m, …]
        return tf.reshape(column, tf.concat([[parts, rows // parts], tf.shape(column)[1:]], axis=0))

    divided_inputs = {name: divided(column) for name, column in inputs.items()}
    variables = model.trainable_weights
    seeds = [variable for variable in model.variables if variable.path.endswith("seed_generator_state")]
    first_seeds = [tf.identity(seed) for seed in seeds]

    def embed(part):
        return model({name: column[part] for name, column in divided_inputs.items()}, training=True)["embedding"]

    embeddings = tf.map_fn(embed, tf.range(parts), fn_output_signature=tf.float32, parallel_iterations=1)
    embeddings = tf.reshape(tf.stop_gradient(embeddings), [rows, model.output["embedding"].shape[-1]])
    with tf.GradientTape() as tape:
        tape.watch(embeddings)
        loss = model.compute_loss(inputs, labels, {"embedding": embeddings}, weights, training=True)
        scaled = model.optimizer.scale_loss(loss)
    cached = divided(tape.gradient(scaled, embeddings))  # [m, B / m, H]
    loss_tracker(model).update_state(loss * count_replicas(), sample_weight=rows)
    model.compute_metrics(inputs, labels, {"embedding": embeddings}, weights)
    for seed, first in zip(seeds, first_seeds, strict=True):
        seed.assign(first)  # the same dropout once more
    reached = [True] * len(variables)

    def gradient_of(part):
        with tf.GradientTape() as tape:
            part_embeddings = embed(part)
        return tape.gradient(part_embeddings, variables, output_gradients=cached[part])

    sums = _sum_of_parts(gradient_of, variables, parts, reached)
    model.optimizer.apply(_of_reached(sums, reached), variables)
    return model.get_metrics_result()


def _of_reached(gradients, reached):
    """The gradients, None of the weights that the loss does not reach."""
    return [gradient if is_reached else None for gradient, is_reached in zip(gradients, reached, strict=True)]


def _sum_of_parts(gradient_of, variables, parts, reached):
    """The sums of `gradient_of(part)` over all parts. `reached` then says which weights the loss reaches."""
    import tensorflow as tf

    def add_part(part, sums):
        gradients = gradient_of(part)
        reached[:] = [gradient is not None for gradient in gradients]
        return part + 1, [
            total if gradient is None else total + tf.convert_to_tensor(gradient)
            for total, gradient in zip(sums, gradients, strict=True)
        ]

    zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
    return tf.while_loop(lambda part, _: part < parts, add_part, (0, zeros), parallel_iterations=1)[1]


def _updated_metrics(model, values, loss, outputs, part):
    inputs, labels, weights = part
    with keras.StatelessScope(state_mapping=list(zip(model.metrics_variables, values, strict=True))) as scope:
        loss_tracker(model).update_state(loss, sample_weight=keras.tree.flatten(inputs)[0].shape[0])
        logs = model.compute_metrics(inputs, labels, outputs, weights)
    updated = [scope.get_current_value(variable) for variable in model.metrics_variables]
    return logs, [value if new is None else new for new, value in zip(updated, values, strict=True)]


def check_rows(model: "BertModel", inputs: dict[str, Tensor], micro_batches: int) -> int:
    """B. Raises ValueError unless a replica can divide it into so many micro-batches."""
    rows = keras.tree.flatten(inputs)[0].shape[0]
    if micro_batches > 1 and (rows is None or rows % micro_batches):
        raise ValueError(
            f"{type(model).__name__}: expected batches whose size a replica can divide into micro_batches="
            f"{micro_batches}. Received: {'batches of varying size' if rows is None else f'{rows} rows a replica'}"
        )
    return rows


def _divided(column, rows, micro_batches):
    import tensorflow as tf

    if column is None:
        return None
    if micro_batches == 1:
        return column[None]
    others = [tf.shape(column)[axis] if size is None else size for axis, size in enumerate(column.shape)][1:]
    column = tf.reshape(column, [rows // micro_batches, micro_batches, *others])
    return tf.transpose(column, (1, 0, *range(2, len(column.shape))))


def _gradient(model, inputs, labels, weights, variables):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        loss = model.compute_loss(inputs, labels, outputs, weights, training=True)
        scaled = model.optimizer.scale_loss(loss)
    loss_tracker(model).update_state(loss * count_replicas(), sample_weight=tf.shape(keras.tree.flatten(inputs)[0])[0])
    model.compute_metrics(inputs, labels, outputs, weights)
    return tape.gradient(scaled, variables)


def loss_tracker(model: "BertModel") -> keras.metrics.Metric:
    """Keras' metric of the mean loss."""
    return next(metric for metric in model.metrics if metric.name == "loss")


def total_weights(model: "BertModel", inputs: dict[str, Tensor], labels: Any, weights: Any) -> dict[str, Tensor]:
    """The sum of the weights of each of kbert's losses over the whole batch of all replicas, by output.

    The entry "" is how many times more rows a replica has on average than this one, because Keras weighs the values
    that replicas report with their rows.
    """
    totals = {"": ops.cast(ops.shape(keras.tree.flatten(inputs)[0])[0], "float32")}
    for name, loss in _losses(model).items():
        if isinstance(loss, WeightedMeanLoss):
            label, weight = (part.get(name) if isinstance(part, dict) else part for part in (labels, weights))
            totals[name] = loss.total_weight(label, weight)
    sums = dict(zip(totals, sum_over_replicas(list(totals.values())), strict=True))
    return sums | {"": ops.divide_no_nan(sums[""] / count_replicas(), totals[""])}


@contextlib.contextmanager
def shares_of(model: "BertModel", totals: dict[str, Tensor], micro_batches: int) -> Iterator[None]:
    """Within this context the losses of a micro-batch are its parts of the whole batch's losses."""
    losses = {name: loss for name, loss in _losses(model).items() if name in totals}
    for name, loss in losses.items():
        loss.whole_batch = WholeBatch(totals[name], micro_batches, totals[""])
    try:
        yield
    finally:
        for loss in losses.values():
            loss.whole_batch = None


def losses_of_outputs(loss: Any, outputs: dict[str, Any]) -> Any:
    """`loss` of `compile`, with an object of its own for each output, as `shares_of` tells each its share."""
    if len(outputs) == 1:
        return loss
    if isinstance(loss, WeightedMeanLoss):
        loss = dict.fromkeys(outputs, loss)
    return keras.tree.map_structure(lambda x: copy.copy(x) if isinstance(x, WeightedMeanLoss) else x, loss)


def _losses(model):
    """output → loss, as given to `compile`."""
    names = sorted(model.output)
    losses = model.loss
    if isinstance(losses, dict):
        return losses
    return dict(zip(names, losses if isinstance(losses, list | tuple) else [losses], strict=False))


def has_replicas(model: keras.Model) -> bool:
    """Whether several replicas train the model together, under `tf.distribute`."""
    strategy = strategy_of(model)
    return strategy is not None and strategy.num_replicas_in_sync > 1


def check_micro_batches(micro_batches: int, optimizer: str | dict | keras.optimizers.Optimizer | None) -> None:
    """Raises ValueError unless a model can be compiled with so many micro-batches."""
    accumulates = getattr(base_optimizer(optimizer), "gradient_accumulation_steps", None)
    check_option("compile", "micro_batches", micro_batches, Count)
    if micro_batches > 1 and (keras.backend.backend() not in ("tensorflow", "jax") or accumulates):
        raise ValueError(
            "compile: `micro_batches` is for TensorFlow or JAX, and an optimizer without "
            f"`gradient_accumulation_steps`. Received: micro_batches={micro_batches}, backend "
            f"{keras.backend.backend()}, gradient_accumulation_steps={accumulates}"
        )
