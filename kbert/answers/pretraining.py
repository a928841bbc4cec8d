"""Logits of the two pre-training heads → tokens for each mask, and whether a text follows another.

Shapes: B batch, M masks, V vocabulary, k tokens proposed.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import keras
import tensorflow as tf

import kbert.text.tokenizer  # noqa: F401  registers BertTokenizer, so that configs that hold one can be read
from kbert.answers.answers import Answers, single_values
from kbert.checks import check_option
from kbert.keras_compat import Tensor, deserialize
from kbert.options import Count

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


@keras.saving.register_keras_serializable("kbert")
class FillMaskAnswers(Answers):
    """The k most probable tokens for each [MASK], with their probabilities.

    Tokens are returned as they are in the vocabulary: one that continues a word begins with "##".

    Args:
        tokenizer: `kbert.BertTokenizer`, which gives the names of the ids. None: only `to_dicts` is used.
        top_k: k, how many tokens to propose, at most V.
        **kwargs: name, dtype, trainable.

    Inputs:
        outputs: dict with ``mlm_logits`` [B, M, V].
        batch: dict with ``count`` int32 [B], how many of the M positions of a row are masks (`FillMaskPreprocessor`).

    Returns:
        dict of ``tokens`` string [B, M, k], most probable first; ``probabilities`` float32 [B, M, k], of all V tokens;
            ``count`` int32 [B]. Entries from ``count`` on are "" and 0.

    Raises:
        ValueError: `top_k` is not in 1 ... V.

    Example::

        answers = FillMaskAnswers(tokenizer, top_k=3)(model(batch), batch)
        answers["tokens"][0, 0]  # [b"capital", b"heart", b"centre"]
    """

    option_names = ("top_k",)
    fits_table = False

    def __init__(self, tokenizer: "BertTokenizer | None" = None, top_k: int = 5, **kwargs):
        super().__init__(**kwargs)
        self.top_k = check_option("FillMaskAnswers", "top_k", top_k, Count)
        self.tokenizer = tokenizer

    def call(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> dict[str, tf.Tensor]:
        logits = tf.cast(outputs["mlm_logits"], tf.float32)  # [B, M, V]
        self._check(logits.shape)
        best, ids = tf.math.top_k(logits, self.top_k)  # [B, M, k]
        # Only k of V probabilities are needed, so the whole softmax is not computed.
        probabilities = tf.exp(best - tf.reduce_logsumexp(logits, axis=-1, keepdims=True))
        tokens = tf.gather(tf.constant(self.tokenizer.vocabulary), ids)
        count = tf.cast(batch["count"], tf.int32)  # [B]
        is_real = (tf.range(tf.shape(logits)[1]) < count[:, tf.newaxis])[:, :, tf.newaxis]  # [B, M, 1]
        return {
            "tokens": tf.where(is_real, tokens, ""),
            "probabilities": tf.where(is_real, probabilities, 0.0),
            "count": count,
        }

    def compute_output_spec(
        self, outputs: Mapping[str, keras.KerasTensor], batch: Mapping[str, keras.KerasTensor]
    ) -> dict[str, keras.KerasTensor]:
        # Not by Keras, which would need the vocabulary: while a pipeline is loaded there is none yet.
        shape = outputs["mlm_logits"].shape
        self._check(shape)
        return {
            "tokens": keras.KerasTensor((*shape[:2], self.top_k), dtype="string"),
            "probabilities": keras.KerasTensor((*shape[:2], self.top_k), dtype="float32"),
            "count": keras.KerasTensor(shape[:1], dtype="int32"),
        }

    def _check(self, shape):
        if shape[-1] is not None and self.top_k > shape[-1]:
            raise ValueError(
                f"FillMaskAnswers: `top_k` cannot be more than the vocabulary ({shape[-1]} tokens). "
                f"Received: {self.top_k}"
            )

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """``masks``: for each [MASK] the proposed tokens with their probabilities, best first."""
        columns = (answers["tokens"], answers["probabilities"], answers["count"])
        for tokens, probabilities, count in zip(*columns, strict=True):  # [M, k], [M, k], []
            masks = zip(tokens[:count].tolist(), probabilities[:count].tolist(), strict=True)
            yield {"masks": [[{"token": t, "probability": p} for t, p in zip(*mask, strict=True)] for mask in masks]}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "tokenizer": self.tokenizer}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**{**config, "tokenizer": deserialize(config["tokenizer"])})


@keras.saving.register_keras_serializable("kbert")
class NextSentenceAnswers(Answers):
    """The probability of IsNext, which is index 0 of the logits.

    Inputs:
        outputs: dict with ``nsp_logits`` [B, 2].
        batch: not used.

    Returns:
        dict of ``is_next`` float32 [B].

    Source: Devlin et al. 2018, section 3.1, task 2; Google's ``create_pretraining_data.py`` for the order of the two.

    Example::

        NextSentenceAnswers()({"nsp_logits": tf.constant([[2.0, 0.0]])})["is_next"]  # [0.88]
    """

    def call(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor] | None = None) -> dict[str, tf.Tensor]:
        return {"is_next": tf.nn.softmax(tf.cast(outputs["nsp_logits"], tf.float32))[:, 0]}

    def to_dicts(self, answers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """``is_next``."""
        return single_values(answers, "is_next")
