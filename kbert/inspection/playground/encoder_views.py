"""The views of an encoder: the embeddings that add up to a token's vector, attention and hidden states.

Shapes: S sequence, H hidden, A heads, L layers.
"""

from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from kbert.inspection.analysis.attention_heads import attention_statistics
from kbert.inspection.analysis.states import states_and_attention
from kbert.inspection.playground.questions import RequestFields, read_row, rounded

if TYPE_CHECKING:
    from kbert.inspection.playground.models import PlaygroundModels
    from kbert.layers.embedding_block import EmbeddingBlock

_LONGEST = 256  # tokens: a matrix of more would be neither readable nor small


def input_representation(models: "PlaygroundModels", fields: RequestFields) -> dict:
    """The tokens of a text or pair, and at one position the vectors that the encoder's `EmbeddingBlock` adds up.

    Source: Devlin et al. 2018, section 3, figure 2.
    """
    model = models.open(fields.model())
    text = fields.text("text")
    text_pair = fields.optional_text("text_pair")
    tokens, batch, truncated = read_row(model, text, text_pair)
    answer = {"tokens": tokens, "vectors_available": model.model is not None, "truncated": truncated}
    position = fields.integer("position", None, 0, len(tokens) - 1)
    if position is None:
        return answer
    vectors = embedding_parts(model.encoder.embeddings, batch["token_ids"], batch["segment_ids"])
    vectors = {name: vector[position] for name, vector in vectors.items()}
    norms = {name: rounded(np.linalg.norm(vector)) for name, vector in vectors.items()}
    return answer | {"vectors": {name: rounded(vector) for name, vector in vectors.items()}, "norms": norms}


def embedding_parts(block: "EmbeddingBlock", token_ids: tf.Tensor, segment_ids: tf.Tensor) -> dict[str, np.ndarray]:
    """What an `EmbeddingBlock` computes without dropout, step by step, from int32 [1, S] to float32 [S, H]."""
    positions = tf.range(token_ids.shape[1])[tf.newaxis]
    token = block.token_embedding(token_ids)
    segment = block.segment_embedding(segment_ids)
    position = block.position_embedding(positions)
    total = token + segment + position  # in the order in which the block adds
    parts = {"token": token, "segment": segment, "position": position, "sum": total}
    parts["normalized"] = block.layer_norm(total)
    return {name: keras.ops.convert_to_numpy(value)[0].astype("float32") for name, value in parts.items()}


def attention(models: "PlaygroundModels", fields: RequestFields) -> dict:
    """Attention (averaged over layers or heads where none is chosen), head statistics and norms of hidden states."""
    model = models.open(fields.model())
    text = fields.text("text")
    text_pair = fields.optional_text("text_pair")
    encoder = model.encoder
    layers = encoder.config.num_layers
    heads = encoder.config.num_heads
    layer = fields.integer("layer", None, 0, layers - 1)
    head = fields.integer("head", None, 0, heads - 1)
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
