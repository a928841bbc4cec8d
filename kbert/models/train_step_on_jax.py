"""A training step in micro-batches on JAX, as `kbert.models.train_step` has it on TensorFlow.

Devices share every micro-batch, which `keras.distribution` and JAX's compiler arrange.

Shapes: B batch (of all devices), m micro-batches.
"""

import keras

from kbert.models.train_step import check_rows, loss_tracker, shares_of, total_weights


def train_in_parts_on_jax(model, state, data, micro_batches: int) -> tuple[dict, tuple]:
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


def _updated_metrics(model, values, loss, outputs, part):
    inputs, labels, weights = part
    with keras.StatelessScope(state_mapping=list(zip(model.metrics_variables, values, strict=True))) as scope:
        loss_tracker(model).update_state(loss, sample_weight=keras.tree.flatten(inputs)[0].shape[0])
        logs = model.compute_metrics(inputs, labels, outputs, weights)
    found = [scope.get_current_value(variable) for variable in model.metrics_variables]
    return logs, [value if new is None else new for new, value in zip(found, values, strict=True)]
