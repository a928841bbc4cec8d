"""The view of attention and hidden states.

Shapes: S sequence, H hidden, A heads, L layers.
"""

import numpy as np

from kbert.inspection.analysis.attention_heads import attention_statistics
from kbert.inspection.analysis.states import states_and_attention
from kbert.inspection.playground.plain_values import rounded
from kbert.inspection.playground.token_rows import read_row

FIELDS = ("text", "text_pair", "layer", "head")
_LONGEST = 256  # tokens: a matrix of more would be neither readable nor small


def attention(models, fields) -> dict:
    """The attention probabilities and hidden states of a text or pair, as the encoder computes them.

    ``probabilities`` [S][S] are averaged over layers or heads where none is chosen. ``statistics``
    are [L][A], ``hidden_norms`` [L + 1][S].
    """
    model = models.open(fields.model())
    text, text_pair = fields.text("text"), fields.optional_text("text_pair")
    encoder = model.encoder
    layers, heads = encoder.config.num_layers, encoder.config.num_heads
    layer, head = fields.integer("layer", None, 0, layers - 1), fields.integer("head", None, 0, heads - 1)
    tokens, batch, truncated = read_row(model, text, text_pair, _LONGEST)
    states, probs = states_and_attention(encoder, batch)
    statistics = attention_statistics(probs, [token["token"] for token in tokens])
    statistics = {name: rounded(values) for name, values in statistics.items()}
    chosen = probs[slice(None) if layer is None else slice(layer, layer + 1)]
    chosen = chosen[:, slice(None) if head is None else slice(head, head + 1)]
    return {
        "tokens": tokens,
        "layers": layers,
        "heads": heads,
        "probabilities": rounded(chosen.mean(axis=(0, 1), dtype="float64")),
        "statistics": [
            [{name: values[n][m] for name, values in statistics.items()} for m in range(heads)] for n in range(layers)
        ],
        "hidden_norms": rounded(np.linalg.norm(states, axis=-1)),
        "truncated": truncated,
    }
