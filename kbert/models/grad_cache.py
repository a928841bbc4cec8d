"""The gradient of a loss on the embeddings of a whole batch, in the memory of a part of it.

Shapes: B rows (of a replica), m parts, H hidden.
"""

from kbert.models.train_step import check_rows, loss_tracker
from kbert.optim.replicas import count_replicas


def train_with_cached_embeddings(model, data, parts: int) -> dict:
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
    reached = [True] * len(variables)  # by the loss; weights that it does not reach have no gradient

    def add_part(part, sums):
        with tf.GradientTape() as tape:
            part_embeddings = embed(part)
        gradients = tape.gradient(part_embeddings, variables, output_gradients=cached[part])
        reached[:] = [gradient is not None for gradient in gradients]
        return part + 1, [
            total if gradient is None else total + tf.convert_to_tensor(gradient)
            for total, gradient in zip(sums, gradients, strict=True)
        ]

    zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
    _, sums = tf.while_loop(lambda part, _: part < parts, add_part, (0, zeros), parallel_iterations=1)
    model.optimizer.apply([one if some else None for one, some in zip(sums, reached, strict=True)], variables)
    return model.get_metrics_result()
