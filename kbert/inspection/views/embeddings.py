"""What an input row sums up to.

Shapes: S sequence, H hidden.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from kbert.inspection.analysis.states import text_row

if TYPE_CHECKING:
    from kbert.models.encoder import BertEncoder
    from kbert.text.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True, eq=False)
class InputRow:
    """The input of an encoder for a text or pair.

    Attributes:
        tokens, token_ids, segments: the S positions.
        parts: name → float32 [S, H]: "token", "segment" and "position" embedding, their "sum", and its "LayerNorm",
            which the first layer reads.
        truncated: number of tokens that did not fit.
    """

    tokens: list[str]
    token_ids: list[int]
    segments: list[int]
    parts: dict[str, np.ndarray]
    truncated: int


def input_row(encoder: "BertEncoder", tokenizer: "BertTokenizer", texts: Sequence[str]) -> InputRow:
    """What an encoder's `EmbeddingBlock` computes without dropout, step by step.

    Raises:
        ValueError: a pair for an encoder of one segment.

    Source: Devlin et al. 2018, section 3, figure 2.
    """
    row, truncated = text_row(tokenizer, texts, encoder.config.max_sequence_length, encoder.config)
    block = encoder.embeddings
    token = block.token_embedding(row["token_ids"])
    segment = block.segment_embedding(row["segment_ids"])
    position = block.position_embedding(tf.range(row["token_ids"].shape[1])[tf.newaxis])
    total = token + segment + position  # in the order in which the block adds
    parts = {"token": token, "segment": segment, "position": position, "sum": total}
    parts["LayerNorm"] = block.layer_norm(total)
    ids = row["token_ids"][0].numpy().tolist()
    return InputRow(
        tokens=[tokenizer.vocabulary[n] for n in ids],
        token_ids=ids,
        segments=row["segment_ids"][0].numpy().tolist(),
        parts={name: keras.ops.convert_to_numpy(value)[0].astype("float32") for name, value in parts.items()},
        truncated=truncated,
    )
