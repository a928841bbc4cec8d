"""Losses on the embeddings of texts that belong together.

The rows of a batch are the t texts of the first example, then the texts of the second, and so on, so that an encoder
for single texts trains on pairs and triplets.

Shapes: B examples, t texts of an example, H hidden, m texts that an anchor is compared with.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kbert.keras_compat import Tensor
from kbert.layers.embedding_pooling import unit_length
from kbert.optim.cross_entropy import broadcast_weights
from kbert.optim.losses import WeightedMeanLoss
from kbert.optim.metrics import squared_errors
from kbert.optim.replicas import gather_from_replicas, replica_number


class _EmbeddingLoss(WeightedMeanLoss):
    """A loss that is computed on whole embeddings and on their first `dimensions`, and averaged."""

    ignored_label = None

    def __init__(self, dimensions=(), name=None):
        super().__init__(name=name)
        self.dimensions = tuple(dimensions)

    def values_and_weights(self, y_true, y_pred, sample_weight):
        embeddings = ops.cast(y_pred, "float32")
        sizes = (embeddings.shape[-1], *self.dimensions)
        values = [self.values(y_true, unit_length(embeddings[:, :size])) for size in sizes]
        return sum(values) / len(values), broadcast_weights(sample_weight, values[0])

    def values(self, y_true, embeddings):
        """float32 [B], of embeddings of length 1."""
        raise NotImplementedError

    def total_weight(self, y_true, sample_weight):
        return ops.sum(broadcast_weights(sample_weight, ops.zeros(ops.shape(y_true)[:1])))

    def get_config(self):
        return super().get_config() | {"dimensions": list(self.dimensions)}


@keras.saving.register_keras_serializable("kbert")
class MultipleNegativesLoss(_EmbeddingLoss):
    """Finds the positive of each anchor among the texts of all examples, by cosine similarity.

    The first text of an example is its anchor, the second its positive, further ones are hard negatives. The anchor's
    softmax runs over the positives and the hard negatives of the whole batch, on all replicas. A text that equals the
    anchor or its positive is never a negative.

    Args:
        temperature: what similarities are divided by.
        symmetric: whether each positive has to find its anchor, too. The loss is then the mean of both.
        dimensions: lengths of shorter embeddings that are trained, too: the first components (Matryoshka).

    Inputs:
        y_true: integers [B, t]: numbers of texts, equal where the texts are equal. 0: the example has no such text.
        y_pred: embeddings float [B * t, H].
        sample_weight: floats [B] or None.

    Outputs: float32 [].

    Source: Henderson et al. 2017, section 4.4 (in-batch negatives); Radford et al. 2021 (CLIP; symmetric); Kusupati et
    al. 2022 (Matryoshka).

    Example::

        MultipleNegativesLoss()([[1, 2], [3, 4]], embeddings)  # of "a", its positive, "b", its positive
    """

    default_name = "multiple_negatives_loss"

    def __init__(
        self,
        temperature: float = 0.05,
        symmetric: bool = False,
        dimensions: Sequence[int] = (),
        name: str | None = None,
    ):
        super().__init__(dimensions, name)
        self.temperature = temperature
        self.symmetric = symmetric

    def values(self, y_true: Tensor, embeddings: Tensor) -> Tensor:
        numbers = ops.cast(y_true, "int32")
        texts = numbers.shape[1]
        vectors = ops.reshape(embeddings, (-1, texts, embeddings.shape[-1]))  # [B, t, H]
        all_vectors, all_numbers = gather_from_replicas([vectors, numbers])
        own = replica_number() * ops.shape(numbers)[0] + ops.arange(ops.shape(numbers)[0])  # [B], columns of positives
        anchors, positives = vectors[:, 0], vectors[:, 1]
        candidates = _after_first(all_vectors, texts)  # [m, H]
        candidate_numbers = _after_first(all_numbers, texts)  # [m]
        loss = self._find(anchors, candidates, own, numbers[:, 0], numbers[:, 1], candidate_numbers)
        if not self.symmetric:
            return loss
        back = self._find(positives, all_vectors[:, 0], own, numbers[:, 1], numbers[:, 0], all_numbers[:, 0])
        return (loss + back) / 2

    def _find(self, vectors, candidates, own, numbers, target_numbers, candidate_numbers):
        """-log of the probability with which each vector finds its own candidate, [B]."""
        scores = ops.matmul(vectors, ops.transpose(candidates)) / self.temperature  # [B, m]
        is_own = ops.equal(ops.expand_dims(own, 1), ops.arange(ops.shape(candidates)[0]))
        is_same = [ops.equal(ops.expand_dims(each, 1), candidate_numbers) for each in (numbers, target_numbers)]
        is_left_out = ops.logical_or(ops.logical_or(*is_same), ops.equal(candidate_numbers, 0))
        scores = ops.where(ops.logical_and(is_left_out, ops.logical_not(is_own)), -1e9, scores)
        own_score = ops.sum(ops.where(is_own, scores, 0.0), axis=1)
        return ops.logsumexp(scores, axis=1) - own_score

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"temperature": self.temperature, "symmetric": self.symmetric}


def _after_first(rows, texts):
    """[B, t, …] → [B * (t - 1), …]: all second entries, then all third ones."""
    return ops.concatenate([rows[:, text] for text in range(1, texts)], axis=0)


@keras.saving.register_keras_serializable("kbert")
class CosineLoss(_EmbeddingLoss):
    """Squared error of the cosine similarity of scored pairs.

    Args:
        dimensions: as for `MultipleNegativesLoss`.

    Inputs:
        y_true: scores float [B], each the cosine that the pair should have.
        y_pred: embeddings float [B * 2, H].
        sample_weight: floats [B] or None.

    Outputs: float32 [].

    Source: Reimers and Gurevych 2019 (Sentence-BERT), section 3, regression objective.

    Example::

        CosineLoss()([1.0, 0.2], embeddings)  # of 4 texts
    """

    default_name = "cosine_loss"

    def values(self, y_true: Tensor, embeddings: Tensor) -> Tensor:
        pairs = ops.reshape(embeddings, (-1, 2, embeddings.shape[-1]))
        values, _ = squared_errors(y_true, ops.sum(pairs[:, 0] * pairs[:, 1], axis=-1), None)
        return values
