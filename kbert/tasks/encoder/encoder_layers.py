"""Hidden states of chosen layers, as one tensor.

Shapes: B batch, S sequence, L layers, H hidden.
"""

import keras


def encoder_layers(encoder, layers=None):
    """A model on the encoder's batch with the output ``features`` [B, S, L, H]; it shares the encoder's layers.

    Args:
        encoder: `kbert.BertEncoder` for plain rows.
        layers: indices into the encoder's hidden states: 0 the embeddings, -1 the last block's. None: the last four, or
            all where there are fewer.

    Raises:
        ValueError: layers that are not a list of such indices.

    Source: Devlin et al. 2018, section 5.3 (the feature-based approach); Google's ``extract_features.py``.
    """
    states = [_tensor(layer.output) for layer in (encoder.embeddings, *encoder.blocks)]
    if layers is None:
        layers = range(-1, -1 - min(4, len(states)), -1)
    known = range(-len(states), len(states))
    is_list = isinstance(layers, (list, tuple, range)) and len(layers) > 0
    if not is_list or any(type(layer) is not int or layer not in known for layer in layers):
        raise ValueError(
            f"features: `layers` must be a list of hidden states, {known[0]} to {known[-1]}. Received: {layers!r}"
        )
    stacked = keras.ops.stack([keras.ops.cast(states[layer], "float32") for layer in layers], axis=2)  # [B, S, L, H]
    return keras.Model(encoder.input, {"features": stacked})


def _tensor(output):
    return output[0] if isinstance(output, (list, tuple)) else output  # with attention_probs a block gives two
