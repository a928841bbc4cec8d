"""Labelled examples and windows of long texts → the batches of fine-tuning.

Shapes: B batch, S sequence, W windows, N labels, n rows, t tokens of all windows.
"""

import dataclasses
import functools
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tensorflow as tf

from kbert.models.class_weights import class_factors
from kbert.preprocessing.buckets import grouped_by_length, trim_padding
from kbert.stateless_random import fold_in, permutation
from kbert.tasks.labelled_text import check_label_numbers
from kbert.tasks.stored_texts import StoredTexts
from kbert.tasks.task import TrainingData

if TYPE_CHECKING:
    from kbert.pipelines.pipeline import Pipeline
    from kbert.preprocessing.preprocessor import Preprocessor
    from kbert.tasks.examples import Examples


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows that batches are made of."""

    count: int  # n
    read: Callable[[Any], tuple]  # row numbers [B] → (inputs, labels) or (inputs, labels, weights), dicts of tensors
    sizes: Callable[[], np.ndarray]  # → tokens of each row, integers [n]
    by_token: bool = False  # whether labels and weights have a value for each token, [B, S, ...]


def training_dataset(
    rows: TrainingRows,
    *,
    batch_size: int,
    seed: int = 0,
    start_step: int = 0,
    padding: str = "bucket",
    group_by_length: bool = False,
) -> tf.data.Dataset:
    """An infinite dataset of full batches for `model.fit`, in the order of `row_batches`.

    A batch is what ``rows.read`` gives, with inputs cut by `padding` (`kbert.preprocessing.buckets.trim_padding`),
    which affects only the time of a step. S is static only with "full", which a TPU needs. `group_by_length` sorts the
    rows of up to 50 batches into batches by number of tokens. This is faster, but batches are no longer random, and
    all examples are tokenised once more at the start.
    """

    @tf.autograph.experimental.do_not_convert
    def batch(numbers):  # [B]
        inputs, *labels = rows.read(numbers)
        inputs = trim_padding(inputs, padding)
        if rows.by_token and padding != "full":
            length = tf.shape(inputs["padding_mask"])[1]
            labels = tf.nest.map_structure(lambda values: values[:, :length], labels)
        return inputs, *labels

    sizes = rows.sizes() if group_by_length else None
    numbers = row_batches(rows.count, batch_size=batch_size, seed=seed, start_step=start_step, sizes=sizes)
    return numbers.map(batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)


def as_training_data(rows: TrainingRows, real_tokens: float, examples: int | None = None, **batches) -> TrainingData:
    """What `Task.training_data` returns; `examples` in an epoch are as many as rows by default."""
    return TrainingData(
        examples=rows.count if examples is None else examples,
        windows=rows.count,
        real_tokens=real_tokens,
        make_dataset=functools.partial(training_dataset, rows, **batches),
    )


def row_batches(
    count: int, *, batch_size: int, seed: int = 0, start_step: int = 0, sizes: np.ndarray | None = None
) -> tf.data.Dataset:
    """An infinite dataset of full batches of row numbers, int [B], in a new order each epoch.

    As in the original, a batch may hold the last rows of one epoch and the first of the next, so that every batch is
    full and no row is skipped. Batch n depends only on the arguments and n, so a run that resumes at `start_step` gets
    the batches that it would have had without the interruption.

    `sizes` are ints [n], the tokens of each row, to put rows of similar length into one batch
    (`kbert.preprocessing.buckets.grouped_by_length`). None draws batches at random.
    """

    def rows_from(step):
        first_epoch, done = divmod(step * batch_size, count)
        return tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(epoch_order).skip(done)

    @tf.autograph.experimental.do_not_convert
    def epoch_order(epoch):
        return tf.data.Dataset.from_tensor_slices(permutation(fold_in(seed, epoch), count))

    if sizes is None:
        return rows_from(start_step).batch(batch_size, drop_remainder=True)
    return grouped_by_length(rows_from, sizes, batch_size=batch_size, seed=seed, start_step=start_step)


def example_rows(
    examples: "Examples",
    preprocessor: "Preprocessor",
    *,
    labels: Mapping[str, np.ndarray] | None = None,
    weights: np.ndarray | None = None,
) -> TrainingRows:
    """Examples as rows, tokenised when a batch is made.

    `labels` are [n, ...] by the model's output (None: those of the examples), `weights` loss factors [n].
    """
    texts = row_reader(examples.columns)
    read = _labelled(
        lambda numbers: preprocessor(texts(numbers)),
        labels_by_output(examples) if labels is None else labels,
        weights,
    )
    return TrainingRows(len(examples), read, lambda: token_counts(examples, preprocessor))


def window_rows(
    store: "WindowStore", labels: Mapping[str, np.ndarray], weights: np.ndarray | None = None
) -> TrainingRows:
    """Windows as rows, from labels {output: integers [W] or [W, ...]} and perhaps the loss factor of each window."""
    return TrainingRows(len(store), _labelled(store.batch, labels, weights), lambda: store.lengths)


def _labelled(read, labels, weights):
    labels = {name: tf.constant(values) for name, values in labels.items()}
    factors = None if weights is None else tf.constant(weights, "float32")

    def read_labelled(numbers):
        batch = read(numbers), {name: tf.gather(values, numbers) for name, values in labels.items()}
        return batch if factors is None else (*batch, {name: tf.gather(factors, numbers) for name in labels})

    return read_labelled


def labels_by_output(examples: "Examples", num_labels: int | None = None) -> dict[str, np.ndarray]:
    """The labels by the model's output, int32 ``logits`` or float32 ``score``; an error if a label is not below N."""
    if num_labels is not None:
        check_label_numbers(examples.labels, num_labels)
    output, kind = ("score", "float32") if examples.regression else ("logits", "int32")
    return {output: np.asarray(examples.labels, kind)}


def example_weights(
    class_weight: Mapping[Any, float] | Literal["balanced"], pipeline: "Pipeline", ids: np.ndarray
) -> np.ndarray:
    """The factor of each row's loss, float32 [n], for `class_weight` as `class_factors` takes it.

    `ids` are the class numbers [n] of all rows that are learned: of texts, or of their windows.
    """
    labels = pipeline.answers.labels
    if not labels:
        raise ValueError(f"finetune: `class_weight` is for models with labels. Received: {class_weight!r}")
    return class_factors(class_weight, len(labels), labels, ids=ids, owner="finetune")[ids]


def real_tokens(examples: "Examples", preprocessor: "Preprocessor", sample: int = 1024) -> float:
    """Mean number of tokens per example that are not padding, from `sample` evenly spread examples. For speeds."""
    numbers = np.linspace(0, len(examples) - 1, min(sample, len(examples)), dtype="int64")
    tokens = 0
    for start in range(0, len(numbers), 64):  # few at once: long documents have many windows each
        columns = examples.take(numbers[start : start + 64]).columns
        batch = preprocessor({name: tf.constant(column) for name, column in columns.items()})
        tokens += int(tf.math.count_nonzero(batch["padding_mask"]))
    return tokens / len(numbers)


def token_counts(examples: "Examples", preprocessor: "Preprocessor") -> np.ndarray:
    """Tokens of each example that are not padding, int32 [n]. With choices, tokens of the longest choice."""
    texts = row_reader(examples.columns)

    @tf.autograph.experimental.do_not_convert
    def count(rows):  # [up to 1024]
        batch = preprocessor(texts(rows))
        tokens = tf.math.count_nonzero(batch["padding_mask"], axis=-1, dtype=tf.int32)
        return tokens if tokens.shape.rank == 1 else tf.reduce_max(tokens, axis=-1)

    counts = tf.data.Dataset.range(len(examples)).batch(1024).map(count, num_parallel_calls=tf.data.AUTOTUNE)
    return np.concatenate(list(counts.as_numpy_iterator()))


def row_reader(columns: Mapping[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """A function of row numbers [B], also in a graph, that gives those rows of columns: {name: tensor [B, …]}."""
    sources = {
        name: column if isinstance(column, StoredTexts) else tf.constant(column) for name, column in columns.items()
    }
    return lambda rows: {name: _gather(source, rows) for name, source in sources.items()}


def _gather(source, rows):
    if not isinstance(source, StoredTexts):
        return tf.gather(source, rows)
    reference = weakref.ref(source)  # TensorFlow keeps such functions for good; `row_reader` has the source
    texts = tf.numpy_function(lambda rows: np.array(reference().read(rows), object), [rows], tf.string, stateful=False)
    return tf.ensure_shape(texts, rows.shape)


_EXAMPLES = 256  # preprocessed at a time


@dataclasses.dataclass(frozen=True, eq=False)
class WindowStore:
    """The windows that a preprocessor made from many texts. `batch` returns any of them as a model's batch.

    The number of windows varies between texts, so a training that has to resume at a step cannot draw batches of
    windows from texts on the fly. Stored as ragged rows, 100,000 questions take about 100 MB.
    """

    token_ids: np.ndarray  # int32 [t]
    starts: np.ndarray  # int64 [W], first token of each window
    lengths: np.ndarray  # int32 [W], tokens, [CLS] and [SEP] among them
    first_lengths: np.ndarray  # int32 [W], tokens of segment 0
    rows: np.ndarray  # int32 [W], the text of each window
    sequence_length: int  # S
    pad_id: int

    @classmethod
    def from_examples(
        cls,
        examples: "Examples",
        preprocessor: "Preprocessor",
        on_batch: Callable[[Any, dict[str, tf.Tensor]], None] | None = None,
    ) -> "WindowStore":
        """Preprocesses examples, 256 at a time, and keeps their windows in the order of the examples.

        `on_batch` is called with some examples and the preprocessor's batch of them, for all in order.
        """
        tokens = []
        lengths = []
        firsts = []
        rows = []
        for done in range(0, len(examples), _EXAMPLES):
            part = examples.take(np.arange(done, min(done + _EXAMPLES, len(examples))))
            batch = preprocessor({name: tf.constant(column) for name, column in part.columns.items()})
            if on_batch is not None:
                on_batch(part, batch)
            mask = np.asarray(batch["padding_mask"])
            tokens.append(np.asarray(batch["token_ids"])[mask])
            lengths.append(mask.sum(axis=1))
            firsts.append((mask & (np.asarray(batch["segment_ids"]) == 0)).sum(axis=1))
            rows.append(done + np.asarray(batch["window_row"]))
        tokens, lengths, firsts, rows = (np.concatenate(x).astype("int32") for x in (tokens, lengths, firsts, rows))
        starts = np.concatenate([[0], np.cumsum(lengths[:-1], dtype="int64")])
        return cls(tokens, starts, lengths, firsts, rows, preprocessor.sequence_length, preprocessor.tokenizer.pad_id)

    @functools.cached_property
    def _tensors(self):
        with tf.init_scope(), tf.device("CPU:0"):  # tensors: an array would be copied into the graph of every dataset
            columns = (self.token_ids, self.starts, self.lengths, self.first_lengths)
            return tuple(tf.constant(column) for column in columns)

    def __len__(self):
        return len(self.lengths)

    @property
    def real_tokens(self) -> float:
        """Mean number of tokens of a window."""
        return float(self.lengths.mean())

    def batch(self, windows: tf.Tensor | np.ndarray) -> dict[str, tf.Tensor]:
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
