"""Windows of texts, tokenised once and stored without padding, for training.

Shapes: W windows in the store, B batch, S sequence, t tokens of all windows.
"""

import dataclasses

import numpy as np
import tensorflow as tf

_EXAMPLES = 256  # preprocessed at a time


@dataclasses.dataclass(frozen=True, eq=False)
class WindowStore:
    """The windows that a preprocessor made from many texts; `batch` returns any of them as a model's batch.

    The number of windows varies between texts, so batches of windows cannot be drawn from texts on the fly by a
    training that has to resume at a step. Stored as ragged rows, 100,000 questions take about 100 MB.
    """

    token_ids: np.ndarray  # int32 [t]
    starts: np.ndarray  # int64 [W], first token of each window
    lengths: np.ndarray  # int32 [W], tokens, [CLS] and [SEP] among them
    first_lengths: np.ndarray  # int32 [W], tokens of segment 0
    rows: np.ndarray  # int32 [W], the text of each window
    sequence_length: int  # S
    pad_id: int

    @classmethod
    def from_examples(cls, examples, preprocessor, on_batch=None) -> "WindowStore":
        """Preprocesses examples, some at a time, and keeps their windows in the order of the examples.

        Args:
            preprocessor: one that cuts windows: ``token_ids``, ``segment_ids``, ``padding_mask`` [W, S] and
                ``window_row`` [W].
            on_batch: function of some examples and the preprocessor's batch of them, called for all in order.
        """
        tokens, lengths, firsts, rows = [], [], [], []
        for done in range(0, len(examples), _EXAMPLES):
            some = examples.take(np.arange(done, min(done + _EXAMPLES, len(examples))))
            batch = preprocessor({name: tf.constant(column) for name, column in some.columns.items()})
            if on_batch is not None:
                on_batch(some, batch)
            mask = np.asarray(batch["padding_mask"])
            tokens.append(np.asarray(batch["token_ids"])[mask])
            lengths.append(mask.sum(axis=1))
            firsts.append((mask & (np.asarray(batch["segment_ids"]) == 0)).sum(axis=1))
            rows.append(done + np.asarray(batch["window_row"]))
        tokens, lengths, firsts, rows = (np.concatenate(x).astype("int32") for x in (tokens, lengths, firsts, rows))
        starts = np.concatenate([[0], np.cumsum(lengths[:-1], dtype="int64")])
        return cls(tokens, starts, lengths, firsts, rows, preprocessor.sequence_length, preprocessor.tokenizer.pad_id)

    def __post_init__(self):
        names = ("token_ids", "starts", "lengths", "first_lengths")
        with tf.init_scope(), tf.device("CPU:0"):  # tensors: an array would be copied into the graph of every dataset
            object.__setattr__(self, "_tensors", tuple(tf.constant(getattr(self, name)) for name in names))

    def __len__(self):
        return len(self.lengths)

    def batch(self, windows):
        """The windows of the given numbers [B]: dict of ``token_ids``, ``segment_ids``, ``padding_mask`` [B, S]."""
        token_ids, starts, lengths, first_lengths = self._tensors
        position = tf.range(self.sequence_length)[tf.newaxis, :]  # [1, S]
        length = tf.gather(lengths, windows)[:, tf.newaxis]  # [B, 1]
        padding_mask = position < length
        index = tf.gather(starts, windows)[:, tf.newaxis] + tf.cast(tf.minimum(position, length - 1), tf.int64)
        is_second = padding_mask & (position >= tf.gather(first_lengths, windows)[:, tf.newaxis])
        return {
            "token_ids": tf.where(padding_mask, tf.gather(token_ids, index), self.pad_id),
            "segment_ids": tf.cast(is_second, tf.int32),
            "padding_mask": padding_mask,
        }
