"""Cached features of words → batches of sentences for the tagger of the feature-based approach.

Shapes: B batch, T words of the longest sentence, L layers, H hidden, n words of all sentences.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kbert.tasks.tagging.readers import TaggedText
from kbert.tasks.training_data import row_batches


class FeatureSentences:
    """Sentences with the features of their words, read from a file on demand.

    Args:
        path: of the file that `write_word_features` wrote for this text, float16 [n, layers of the file, H].
        columns: which layers of the file to use, L of them.

    Raises:
        ValueError: the file holds another number of words.
    """

    def __init__(self, path, tagged: TaggedText, tags: Sequence[str], columns: Sequence[int]):
        self.features = np.load(path, mmap_mode="r")
        self.tagged = tagged
        self.columns = list(columns)
        self.lengths = np.array([len(words) for words in tagged.words], "int32")
        self.starts = np.cumsum(self.lengths) - self.lengths
        if len(self.features) != self.lengths.sum():
            raise ValueError(
                f"{path}: expected the features of {self.lengths.sum():,} words. Received: {len(self.features):,}; "
                "delete the file, and it will be written again."
            )
        index = {tag: n for n, tag in enumerate(tags)}
        self.labels = np.array([index.get(tag, -1) for sentence in tagged.tags for tag in sentence], "int32")

    def __len__(self):
        return len(self.lengths)

    def batch(self, rows) -> dict[str, np.ndarray]:
        """``features`` float32 [B, T, L, H], ``mask`` bool [B, T], ``labels`` int32 [B, T] (-1: none)."""
        size = int(self.lengths[rows].max())
        features = np.zeros((len(rows), size, len(self.columns), self.features.shape[-1]), "float32")
        labels = np.full((len(rows), size), -1, "int32")
        for n, row in enumerate(rows):
            words = slice(self.starts[row], self.starts[row] + self.lengths[row])
            features[n, : self.lengths[row]] = self.features[words][:, self.columns]
            labels[n, : self.lengths[row]] = self.labels[words]
        return {"features": features, "mask": np.arange(size) < self.lengths[rows][:, None], "labels": labels}


def feature_dataset(sentences: FeatureSentences, *, batch_size: int, seed: int = 0, start_step: int = 0):
    """An infinite dataset for `model.fit`, with sentences of similar length in a batch, in a new order each epoch.

    Batch n depends only on the sentences, `batch_size`, `seed` and n, so a run that resumes at `start_step` gets the
    same batches as without the interruption.

    Returns:
        tf.data.Dataset of ``(inputs, labels)``: inputs ``features`` [B, T, L, H] and ``mask`` [B, T], labels
        ``{"logits": int32 [B, T]}``, -1 after the end of a sentence, which the loss ignores.
    """

    def read(rows):
        batch = sentences.batch(rows)
        return batch["features"], batch["mask"], batch["labels"]

    @tf.autograph.experimental.do_not_convert
    def batch(rows):  # [B]
        features, mask, labels = tf.numpy_function(read, [rows], [tf.float32, tf.bool, tf.int32])
        features.set_shape((batch_size, None, len(sentences.columns), sentences.features.shape[-1]))
        mask.set_shape((batch_size, None))
        labels.set_shape((batch_size, None))
        return {"features": features, "mask": mask}, {"logits": labels}

    rows = row_batches(len(sentences), batch_size=batch_size, seed=seed, start_step=start_step, sizes=sentences.lengths)
    return rows.map(batch, num_parallel_calls=1).prefetch(2)
