"""Gradient checkpointing: an encoder block whose activations are computed again for the gradient.

Shapes: B batch, S sequence, H hidden.
"""

import keras

from kbert.keras_compat import all_layers
from kbert.layers.replica_dropout import ReplicaDropout


def rematerialized(block, x, bias):
    """The output of an encoder block in training, float [B, S, H]; only its inputs are kept for the gradient.

    `x` is float [B, S, H], `bias` float [B, 1, 1 or S, S]. The seeds of dropout are drawn outside of what is computed
    twice, so that both times drop the same values. (`keras.RematScope` would draw again, hence give wrong gradients:
    Keras 3.15.)

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".
    """
    dropouts = [layer for layer in all_layers(block) if isinstance(layer, ReplicaDropout) and layer.rate]
    if dropouts and keras.backend.backend() not in ("tensorflow", "jax"):
        raise NotImplementedError("rematerialize: dropout needs TensorFlow or JAX. Set the dropout rates to 0.")
    seeds = [layer.seed_generator.next() for layer in dropouts]

    def forward(x, bias):
        for layer, seed in zip(dropouts, seeds, strict=True):
            layer.given_seed = seed
        try:
            return block.transform(x, bias, training=True)
        finally:
            for layer in dropouts:
                layer.given_seed = None

    return keras.remat(forward)(x, bias)
