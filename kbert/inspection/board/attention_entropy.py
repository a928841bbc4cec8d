"""How concentrated the attention of each layer is.

Shapes: B batch, A heads, S sequence, L layers, C choices.
"""

import numpy as np
from keras import ops


class AttentionEntropy:
    """The entropy of the attention probabilities of every layer, head and token, on rows that stay the same.

    0 is attention to a single token; the logarithm of the number of tokens is attention to all of them alike.

    Args:
        model: one of kbert's models; its weights are read anew with each call.
        inputs: dict of arrays, a batch for the model or one with more keys.
        rows: int, the number of rows that are looked at.
    """

    def __init__(self, model, inputs, rows=4):
        self._encoder = model.encoder.with_outputs("attention_probs")
        names = self._encoder.input
        self._inputs = {name: _rows(np.asarray(inputs[name]))[:rows] for name in names}
        self._is_token = self._inputs["padding_mask"].astype(bool)

    def __call__(self) -> list[np.ndarray]:
        """L arrays of float32 [tokens × A]: for every token that is not padding and every head, in nats."""
        layers = self._encoder(self._inputs, training=False)["attention_probs"]
        return [self._entropies(ops.convert_to_numpy(probs)) for probs in layers]

    def _entropies(self, probs):
        probs = probs.astype("float64")  # [B, A, S, S]
        entropy = -(probs * np.log(np.maximum(probs, 1e-30))).sum(axis=-1)  # [B, A, S]
        return np.moveaxis(entropy, 1, -1)[self._is_token].ravel().astype("float32")


def _rows(array):
    """[B, S], of choices [B, C, S] too."""
    return array.reshape(-1, array.shape[-1])
