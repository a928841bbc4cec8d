"""Hidden states → one vector per text.

Shapes: B batch, S sequence, H hidden.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from kbert.answers.answers import Answers, single_values
from kbert.checks import check_option
from kbert.keras_compat import Tensor
from kbert.layers.embedding_pooling import EmbeddingPooling, unit_length

POOLINGS = ("mean", "max", "cls", "pooler")


@keras.saving.register_keras_serializable("kbert")
class EmbeddingAnswers(Answers):
    """Pools an encoder's last hidden states to one vector, the embedding of the text.

    Args:
        pooling: "mean" or "max" over the tokens (including [CLS] and [SEP], without padding), "cls" for the hidden
            state of [CLS], or "pooler" for the pooled output (dense + tanh of that state).
        normalize: whether to scale each vector to length 1, so that a dot product is the cosine similarity.
        **kwargs: name, dtype, trainable.

    Inputs:
        outputs: dict with ``sequence_output`` [B, S, H], for "pooler" ``pooled_output`` [B, H].
        batch: dict with ``padding_mask`` bool [B, S].

    Returns:
        dict of ``embedding`` float32 [B, H].

    Raises:
        ValueError: an unknown pooling, or an encoder without the output it reads.

    Source: Reimers and Gurevych 2019 (Sentence-BERT), section 3; the BERT paper defines no embedding of texts.

    Example::

        EmbeddingAnswers(normalize=True)(encoder(batch), batch)["embedding"]  # [B, H]
    """

    option_names = ("pooling", "normalize")
    fits_table = False

    def __init__(self, pooling: str = "mean", normalize: bool = False, **kwargs):
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(f"EmbeddingAnswers: `pooling` must be one of {POOLINGS}. Received: {pooling!r}")
        self.pooling = pooling
        self.normalize = check_option("EmbeddingAnswers", "normalize", normalize, bool)
        self._pool = None if pooling == "pooler" else EmbeddingPooling(pooling, self.normalize, dtype="float32")

    def call(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        states = tf.cast(self._source(outputs), tf.float32)
        if self._pool is not None:
            return {"embedding": self._pool(states, batch["padding_mask"])}  # [B, H]
        return {"embedding": unit_length(states) if self.normalize else states}

    def _source(self, outputs):
        name = "pooled_output" if self.pooling == "pooler" else "sequence_output"
        if name not in outputs:
            raise ValueError(
                f"EmbeddingAnswers: pooling={self.pooling!r} reads `{name}`. Received: an encoder with the outputs "
                f"{sorted(outputs)}"
            )
        return outputs[name]

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """``embedding``, a list of H numbers."""
        return single_values(answers, "embedding")


@keras.saving.register_keras_serializable("kbert")
class SentenceEmbeddings(Answers):
    """The embeddings of a model that pools by itself, `kbert.BertSentenceEncoder`.

    Inputs:
        outputs: dict with ``embedding`` [B, H].
        batch: not used.

    Returns:
        dict of ``embedding`` float32 [B, H].
    """

    fits_table = False

    def call(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> dict[str, tf.Tensor]:
        return {"embedding": tf.cast(outputs["embedding"], tf.float32)}

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """``embedding``, a list of H numbers."""
        return single_values(answers, "embedding")
