"""The view of the input representation: tokens, and the embeddings that add up to their vectors.

Shapes: S sequence, H hidden.
"""

import keras
import numpy as np
import tensorflow as tf

from kbert.inspection.playground.plain_values import rounded
from kbert.inspection.playground.token_rows import read_row

FIELDS = ("text", "text_pair", "position")


def input_representation(models, fields) -> dict:
    """The tokens of a text or pair, and at one position what the encoder's `EmbeddingBlock` adds up.

    With a position there are ``vectors`` and ``norms`` of ``token``, ``segment``, ``position``,
    their ``sum`` and ``normalized``, which enters the first layer.

    Source: Devlin et al. 2018, section 3, figure 2.
    """
    model = models.open(fields.model())
    text, text_pair = fields.text("text"), fields.optional_text("text_pair")
    tokens, batch, truncated = read_row(model, text, text_pair)
    answer = {"tokens": tokens, "vectors_available": model.model is not None, "truncated": truncated}
    position = fields.integer("position", None, 0, len(tokens) - 1)
    if position is None:
        return answer
    vectors = embedding_parts(model.encoder.embeddings, batch["token_ids"], batch["segment_ids"])
    vectors = {name: vector[position] for name, vector in vectors.items()}
    norms = {name: rounded(np.linalg.norm(vector)) for name, vector in vectors.items()}
    return answer | {"vectors": {name: rounded(vector) for name, vector in vectors.items()}, "norms": norms}


def embedding_parts(block, token_ids, segment_ids) -> dict[str, np.ndarray]:
    """What an `EmbeddingBlock` computes without dropout, step by step, from int32 [1, S] to float32 [S, H]."""
    positions = tf.range(token_ids.shape[1])[tf.newaxis]
    token, segment = block.token_embedding(token_ids), block.segment_embedding(segment_ids)
    position = block.position_embedding(positions)
    total = token + segment + position  # in the order in which the block adds
    parts = {"token": token, "segment": segment, "position": position, "sum": total}
    parts["normalized"] = block.layer_norm(total)
    return {name: keras.ops.convert_to_numpy(value)[0].astype("float32") for name, value in parts.items()}
