"""Tagged words → the windows that a tagger is trained on, through the pipeline's preprocessor.

Shapes: B batch, S sequence, W windows of all texts, n words of all texts, N labels.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from kbert.preprocessing.buckets import trim_padding
from kbert.tasks.tagging.tagged_text import TaggedText
from kbert.tasks.training_data import row_batches

INPUTS = ("token_ids", "segment_ids", "padding_mask")


@dataclasses.dataclass(frozen=True, eq=False)
class TaggedWindows:
    """All windows of tagged texts, tokenised once."""

    batch: Mapping[str, np.ndarray]  # the result of `TaggingPreprocessor.windows` for all texts at once
    labels: np.ndarray  # int32 [W, S]; 0 if there is none
    weights: np.ndarray  # float32 [W, S]: 1 at the first token of every word that has a label, else 0
    words: np.ndarray  # int32 [W, S]: the number of the word at its first token, else -1
    texts: Sequence[range]  # the sentences of each text

    @classmethod
    def from_tagged_text(
        cls, tagged: TaggedText, preprocessor, tags: Sequence[str], context: str = "document"
    ) -> "TaggedWindows":
        """Preprocesses texts of words: sentences or whole documents.

        A word is labelled at its first token, in every window with this token, so words in the overlap of two windows
        are learned in both contexts. Tags that are not among `tags` have weight 0.
        """
        texts = tagged.texts(context)
        words = [[word for row in text for word in tagged.words[row]] for text in texts]
        batch = preprocessor.windows(
            tf.RaggedTensor.from_row_lengths(
                tf.constant([word for text in words for word in text], tf.string), [len(text) for text in words]
            )
        )
        batch = {name: value.numpy() for name, value in batch.items()}
        index = {tag: n for n, tag in enumerate(tags)}
        ids = np.array([index.get(tag, -1) for text in texts for row in text for tag in tagged.tags[row]], "int32")
        token = batch["window_token"]  # [W, S]
        position = batch["word_position"]
        first = token.reshape(-1)[position[position >= 0]]  # [n], in the order of the words
        of_token = np.full(token.max() + 2, -1, "int32")  # the last: no token
        of_token[first] = np.arange(len(first))
        numbers = of_token[token]
        labels = np.append(ids, np.int32(-1))[numbers]
        return cls(batch, np.maximum(labels, 0), (labels >= 0).astype("float32"), numbers, texts)

    def __len__(self):
        return len(self.labels)

    @property
    def word_positions(self) -> np.ndarray:
        """Integers [n]: where in a flat [W * S] each word's first token stands, in the window with the most context."""
        position = self.batch["word_position"]
        return position[position >= 0]

    @property
    def word_labels(self) -> np.ndarray:
        """int32 [n]: the label of each word, 0 if there is none."""
        return self.labels.reshape(-1)[self.word_positions]

    @property
    def real_tokens(self) -> float:
        """Tokens of a window that are not padding, on average."""
        return float(self.batch["padding_mask"].sum()) / len(self)


def tagging_dataset(
    windows: TaggedWindows,
    *,
    batch_size: int,
    seed: int = 0,
    start_step: int = 0,
    padding: str = "bucket",
    group_by_length: bool = False,
    targets: np.ndarray | None = None,
) -> tf.data.Dataset:
    """An infinite dataset of full batches of windows for `model.fit`, in a new order each epoch.

    Batch n depends only on the windows, `batch_size`, `seed` and n, so a run that resumes at `start_step` gets the
    batches that it would have had without the interruption. Batches may span two epochs.

    Yields ``(inputs, labels, sample_weight)``: a batch dict [B, S], ``{"logits": int32 [B, S]}`` and ``{"logits":
    float32 [B, S]}``. `targets`, float32 [n, ...] of the words of all texts, replace the labels.
    """
    labels = windows.labels if targets is None else np.maximum(windows.words, 0)
    columns = {name: windows.batch[name] for name in INPUTS} | {"labels": labels, "weights": windows.weights}
    with tf.init_scope(), tf.device("CPU:0"):  # tensors: an array would be copied into the graph
        columns = {name: tf.constant(column) for name, column in columns.items()}
        targets = None if targets is None else tf.constant(targets)

    @tf.autograph.experimental.do_not_convert
    def batch(rows):  # [B]
        inputs = {name: tf.gather(column, rows) for name, column in columns.items()}
        inputs = trim_padding(inputs, padding, also=("labels", "weights"))
        labels = inputs.pop("labels")
        weights = inputs.pop("weights")
        labels = labels if targets is None else tf.gather(targets, labels)  # [B, S, ...]
        return inputs, {"logits": labels}, {"logits": weights}

    sizes = windows.batch["padding_mask"].sum(axis=1) if group_by_length else None
    rows = row_batches(len(windows), batch_size=batch_size, seed=seed, start_step=start_step, sizes=sizes)
    return rows.map(batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
