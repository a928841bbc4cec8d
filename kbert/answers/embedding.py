"""Hidden states → one vector per text.

Shapes: B batch, S sequence, H hidden.
"""

import keras
import tensorflow as tf

from kbert.answers.answers import Answers, single_values
from kbert.checks import check_bool

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

    def __init__(self, pooling="mean", normalize=False, **kwargs):
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(f"EmbeddingAnswers: `pooling` must be one of {POOLINGS}. Received: {pooling!r}")
        self.pooling = pooling
        self.normalize = check_bool(normalize, "EmbeddingAnswers: `normalize`")

    def call(self, outputs, batch):
        vectors = self._pooled(self._source(outputs), batch["padding_mask"])  # [B, H]
        return {"embedding": tf.math.l2_normalize(vectors, axis=-1) if self.normalize else vectors}

    def _pooled(self, states, padding_mask):
        states = tf.cast(states, tf.float32)
        if self.pooling == "pooler":
            return states
        if self.pooling == "cls":
            return states[:, 0]
        real = tf.cast(padding_mask, tf.bool)[:, :, tf.newaxis]  # [B, S, 1]
        if self.pooling == "max":
            return tf.reduce_max(tf.where(real, states, states.dtype.min), axis=1)
        count = tf.reduce_sum(tf.cast(real, tf.float32), axis=1)  # [B, 1]
        return tf.math.divide_no_nan(tf.reduce_sum(tf.where(real, states, 0.0), axis=1), count)

    def _source(self, outputs):
        name = "pooled_output" if self.pooling == "pooler" else "sequence_output"
        if name not in outputs:
            raise ValueError(
                f"EmbeddingAnswers: pooling={self.pooling!r} reads `{name}`. Received: an encoder with the outputs "
                f"{sorted(outputs)}"
            )
        return outputs[name]

    def compute_output_spec(self, outputs, batch):
        source = self._source(outputs)
        return {"embedding": keras.KerasTensor((source.shape[0], source.shape[-1]), dtype="float32")}

    def to_dicts(self, answers):
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

    def call(self, outputs, batch):
        return {"embedding": tf.cast(outputs["embedding"], tf.float32)}

    def compute_output_spec(self, outputs, batch):
        return {"embedding": keras.KerasTensor(outputs["embedding"].shape, dtype="float32")}

    def to_dicts(self, answers):
        """``embedding``, a list of H numbers."""
        return single_values(answers, "embedding")
