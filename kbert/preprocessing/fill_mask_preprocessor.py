"""Strings with [MASK] in them → batch with the masks' positions.

Shapes: B batch, S sequence, M masks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from kbert.checks import check_option
from kbert.config import MASK_RATE, default_max_predictions
from kbert.corpus.documents import DocumentList
from kbert.corpus.pool import TokenPool, text_pools
from kbert.keras_compat import with_known_length
from kbert.options import Count
from kbert.preprocessing.preprocessor import Preprocessor, tokens_of
from kbert.preprocessing.strings import check_batches, column_names, string_columns, warn_of_empty_strings
from kbert.preprocessing.windows import sliding_windows
from kbert.pretraining.dataset import filled_batches, masked_rows, sampled_rows, with_options
from kbert.pretraining.masking import OPTIONS, NextTokens, TokenMasking
from kbert.pretraining.pairs import PairTable, example_keys, max_pair_tokens
from kbert.pretraining.row_sampler import RowSampler
from kbert.stateless_random import fold_in, permutation
from kbert.text.packing import content_length, pack_ranges, truncated_lengths
from kbert.text.special_tokens import check_special_tokens, plain_special_tokens

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


_FIXED_SEED = 0x6B62657274  # of masks for validation, whatever the seed of training


@keras.saving.register_keras_serializable("kbert")
class FillMaskPreprocessor(Preprocessor):
    """Tokenises texts in which ``[MASK]`` marks a token to predict, and finds the masks.

    A text that does not fit is truncated at its end. If this would remove all of its masks, the
    part around its first mask is kept instead. The first `max_masks` masks of the kept part are
    answered and counted. A text without masks is valid and has count 0.

    Args:
        tokenizer: `kbert.BertTokenizer`. One without `special_tokens_in_text` is replaced by one
            with it.
        sequence_length: S, static.
        max_masks: M, static: the maximum number of masks of a text that are answered.
        special_tokens_in_text: the option of the model's tokenizer for other tasks, which is stored
            with the model. None: as `tokenizer`.
        causal: whether the model is left-to-right. It then predicts a mask at the token before it,
            from what is on its left.
        masking: how the texts of `fit` are masked: dict of arguments of
            `kbert.pretraining.TokenMasking`, such as ``{"whole_word": True, "mask_rate": 0.2,
            "seed": 1}``. By default the paper's, with seed 0. A left-to-right model predicts every
            token, and takes none.
        **kwargs: name, dtype, trainable.

    Inputs:
        inputs: dict with the string column ``text`` [B], or the strings themselves.

    Outputs:
        dict of ``token_ids``, ``segment_ids`` int32 [B, S], ``padding_mask`` bool [B, S],
        ``mask_positions`` int32 [B, M] (ascending, then 0; of a causal model one less) and
        ``count`` int32 [B].

    Raises:
        ValueError: a missing column, a single string, a sequence length too short for text,
            `max_masks` below 1.
        TypeError: a column that does not hold strings.

    Example::

        preprocessor = FillMaskPreprocessor(kbert.BertTokenizer("vocab.txt"), sequence_length=16)
        preprocessor(["Paris is the [MASK] of France."])["mask_positions"]  # [[4, 0, 0, 0, 0, 0, 0, 0]]
    """

    outputs = tokens_of("B S") | {"count": "int32 B"}
    option_names = ("max_masks", "masking")
    makes_labels = True

    def __init__(
        self,
        tokenizer: "BertTokenizer",
        sequence_length: int = 128,
        max_masks: int = 8,
        special_tokens_in_text: bool | Sequence[str] | None = None,
        causal: bool = False,
        masking: Mapping[str, Any] | None = None,
        **kwargs,
    ):
        super().__init__(tokenizer.reading_special_tokens(), sequence_length, **kwargs)
        content_length(sequence_length, 1)
        self.max_masks = check_option("FillMaskPreprocessor", "max_masks", max_masks, Count)
        self.causal = check_option("FillMaskPreprocessor", "causal", causal, bool)
        if special_tokens_in_text is None:
            special_tokens_in_text = tokenizer.special_tokens_in_text
        self.special_tokens_in_text = check_special_tokens(special_tokens_in_text, "FillMaskPreprocessor")
        self.masking = dict(masking or {})
        if unknown := sorted(set(self.masking) - {*OPTIONS, "seed"}):
            raise ValueError(f"FillMaskPreprocessor: `masking` takes {[*OPTIONS, 'seed']}. Received: {unknown}")
        checked = TokenMasking(self.tokenizer, **self.masking)
        self.masking |= {name: getattr(checked, name) for name in OPTIONS if name in self.masking}

    def _masking(self):
        """A new layer that masks the texts of `fit`; new, because its state is not used here."""
        tokenizer = self.tokenizer  # [MASK] in a text to learn from is what it is for other tasks
        if tokenizer.special_tokens_in_text != self.special_tokens_in_text:
            own = tokenizer.settings() | {"special_tokens_in_text": self.special_tokens_in_text}
            tokenizer = type(tokenizer)(tokenizer.vocabulary, **own)
        if self.causal:
            return NextTokens(tokenizer, self.sequence_length - 2)
        predictions = default_max_predictions(self.sequence_length, self.masking.get("mask_rate", MASK_RATE))
        return TokenMasking(tokenizer, **{"max_predictions": predictions, "seed": 0, **self.masking})

    def training_batches(
        self,
        x: Any,
        y: Any = None,
        weights: Any = None,
        *,
        batch_size: int | None,
        next_sentence: bool,
        step: Callable[[], int] | None = None,
        shuffle: bool = True,
    ) -> tf.data.Dataset:
        """Masked batches of texts, pairs of texts or documents, for `fit` of a masked language model.

        `x` may be strings [B], a dict or DataFrame with ``text``, and ``text_pair`` for pairs, a tf.data.Dataset of
        such batches, also with labels and weights, or documents, each a list of sentences, which become pairs as in
        `kbert.pretrain`. `y` of pairs are 0 = IsNext, 1 = random, -1 = not known. A `batch_size` of None makes a
        single batch. `step` returns the number of the step at which an epoch begins. None: every epoch has equal masks.
        """
        masking = self._masking()
        seed = self.masking.get("seed", 0)
        if step is None:
            seed = _FIXED_SEED
            shuffle = False

            def step():
                return 0

        if batch_size is None and (_are_documents(x) or isinstance(x, tf.data.Dataset)):
            raise TypeError("Pipeline: a single batch is of texts or pairs; documents and datasets are for `fit`.")
        if isinstance(x, tf.data.Dataset) and (y is not None or weights is not None):
            raise ValueError("Pipeline: a dataset has labels and weights in its elements. Received: others beside it")
        if _are_documents(x):
            if y is not None or weights is not None:
                raise ValueError("Pipeline: documents make their own labels, and take no weights. Received: some")
            sampler = RowSampler(
                masking=masking, seed=seed, sequence_length=self.sequence_length, next_sentence=next_sentence
            )
            rows = masked_rows(
                sampled_rows(_document_pools(x, masking.tokenizer, step), sampler),
                masking,
                sequence_length=self.sequence_length,
                next_sentence=next_sentence,
            )
            return with_options(filled_batches(rows, batch_size)).prefetch(tf.data.AUTOTUNE)
        if isinstance(x, tf.data.Dataset):
            check_batches(x, self.input_names, "Pipeline")
            dataset = x.map(lambda *batch: self._texts(*(batch if len(batch) < 4 else [batch])))
            chunks = streamed_texts(dataset, step=step)
        else:
            columns, labels, weights = self._texts(x, y, weights)
            warn_of_empty_strings(dict(zip(("text", "text_pair"), columns, strict=False)))
            chunks = texts_in_memory(columns, labels, weights, step=step, seed=seed, shuffle=shuffle)
        return masked_batches(
            chunks,
            masking.tokenizer,
            masking,
            seed=seed,
            batch_size=batch_size,
            sequence_length=self.sequence_length,
            next_sentence=next_sentence,
            is_counted=not isinstance(x, tf.data.Dataset),
        )

    def training_columns(self, x: Any) -> dict[str, tf.Tensor]:
        """The columns of texts or pairs: dict of string tensors [B]."""
        if _are_documents(x):
            raise ValueError(
                "Pipeline: `validation_split` divides texts and pairs. Give some of the documents as `validation_data`."
            )
        is_pair = "text_pair" in column_names(x)
        names = ("text", "text_pair") if is_pair else ("text",)
        return dict(zip(names, string_columns(x, names, "Pipeline"), strict=True))

    def _texts(self, x, y=None, weights=None):
        """(columns of strings [B], labels int32 [B], weights float32 [B])."""
        columns = tuple(self.training_columns(x).values())
        size = tf.shape(columns[0])
        if isinstance(y, dict):
            if set(y) != {"nsp_logits"}:
                raise ValueError(f"Pipeline: masks are made here; labels are of `nsp_logits`. Received: {sorted(y)}")
            y = y["nsp_logits"]
        if y is not None and len(columns) == 1:
            raise ValueError("Pipeline: only pairs, `text` and `text_pair`, take labels. Received: labels of texts")
        labels = tf.fill(size, -1) if y is None else tf.reshape(tf.cast(tf.convert_to_tensor(y), tf.int32), size)
        weights = tf.ones(size) if weights is None else tf.cast(tf.convert_to_tensor(weights), tf.float32)
        return columns, labels, tf.reshape(weights, size)

    def call(self, inputs: Any) -> dict[str, tf.Tensor]:
        (text,) = string_columns(inputs, self.input_names, "FillMaskPreprocessor")
        ids = self.tokenizer.call(text)  # ragged [B, None]
        max_tokens = content_length(self.sequence_length, 1)
        starts = tf.cast(ids.row_starts(), tf.int32)  # [B]
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        offset = self._window_start(ids, lengths, max_tokens)
        batch = pack_ranges(
            tf.concat([ids.values, [self.tokenizer.pad_id]], axis=0),  # never empty
            starts + offset,
            tf.minimum(lengths - offset, max_tokens),
            sequence_length=self.sequence_length,
            **self.special_ids,
        )
        is_mask = batch["token_ids"] == self.tokenizer.mask_id  # [B, S]
        # Masks first, in their order: a stable sort of 0 and 1.
        order = tf.argsort(tf.cast(~is_mask, tf.int32), axis=1, stable=True)
        order = tf.pad(order, [[0, 0], [0, max(0, self.max_masks - self.sequence_length)]])
        order = order[:, : self.max_masks]  # [B, M]
        count = tf.minimum(tf.math.count_nonzero(is_mask, axis=1, dtype=tf.int32), self.max_masks)  # [B]
        is_real = tf.range(self.max_masks)[tf.newaxis, :] < count[:, tf.newaxis]
        return {**batch, "mask_positions": tf.where(is_real, order - int(self.causal), 0), "count": count}

    def _window_start(self, ids, lengths, max_tokens):
        """First token kept of each text, int32 [B]: 0, unless all masks come after the first `max_tokens` tokens."""
        first = tf.ragged.range(lengths)  # [B, None] 0, 1, ...
        beyond = tf.int32.max
        positions = first.with_values(tf.where(ids.values == self.tokenizer.mask_id, first.values, beyond))
        first_mask = tf.reduce_min(positions, axis=1)  # [B], `beyond` in a text without a mask
        is_lost = (first_mask >= max_tokens) & (first_mask < beyond)
        around = tf.maximum(tf.minimum(first_mask - max_tokens // 2, lengths - max_tokens), 0)
        return tf.where(is_lost, around, 0)

    def compute_output_spec(
        self, inputs: Mapping[str, keras.KerasTensor] | keras.KerasTensor
    ) -> dict[str, keras.KerasTensor]:
        specs = super().compute_output_spec(inputs)
        shape = (*specs["count"].shape, self.max_masks)
        return specs | {"mask_positions": keras.KerasTensor(shape, dtype="int32")}

    def settings(self) -> dict[str, Any]:
        settings = super().settings()  # of the model, for other tasks: this preprocessor always reads [MASK]
        settings["tokenizer"]["special_tokens_in_text"] = plain_special_tokens(self.special_tokens_in_text)
        return settings

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "special_tokens_in_text": plain_special_tokens(self.special_tokens_in_text),
            "causal": self.causal,
        }


def _are_documents(x):
    return isinstance(x, DocumentList) or (isinstance(x, list) and bool(x) and isinstance(x[0], list | tuple))


def _document_pools(documents, tokenizer, step):
    """The pools of documents, tokenized once, as a dataset of (epoch, pool); `step` returns the epoch's number."""
    if not isinstance(documents, DocumentList):
        documents = DocumentList(documents)
    pools = [pool for _, pool in text_pools(enumerate(documents), tokenizer)]
    if not any(len(pool.document_ids) for pool in pools):
        raise ValueError(f"Expected at least one token in the documents. Received: {documents}")
    specs = [tf.TensorSpec([None], part.dtype) for part in pools[0]]
    stored = tf.data.Dataset.from_generator(lambda: iter(pools), output_signature=TokenPool(*specs))
    return _steps(lambda: iter([step()])).flat_map(_graph(lambda epoch: stored.map(_graph(lambda pool: (epoch, pool)))))


_TEXTS_AT_ONCE = 1024
_TEXTS = 6  # keeps the order of texts independent of the seed's other uses
_graph = tf.autograph.experimental.do_not_convert  # nothing here is Python control flow over tensors


def texts_in_memory(
    columns: Sequence[tf.Tensor],
    labels: tf.Tensor,
    weights: tf.Tensor,
    *,
    step: Callable[[], int],
    seed: int,
    shuffle: bool,
) -> tf.data.Dataset:
    """Chunks of texts: (step int64, text numbers int64 [n], columns, labels [n], weights [n])."""
    size = tf.size(labels, tf.int64)

    def chunks(epoch):
        order = tf.range(size)
        if shuffle:
            order = tf.cast(permutation(fold_in(seed, _TEXTS, epoch), size), tf.int64)
        numbers = tf.data.Dataset.from_tensor_slices(order).batch(_TEXTS_AT_ONCE)

        def chunk(number):
            texts = tuple(tf.gather(column, number) for column in columns)
            return epoch, number, texts, tf.gather(labels, number), tf.gather(weights, number)

        return numbers.map(_graph(chunk))

    return _steps(lambda: iter([step()])).flat_map(_graph(chunks))


def streamed_texts(dataset: tf.data.Dataset, *, step: Callable[[], int]) -> tf.data.Dataset:
    """The chunks of `texts_in_memory` from a dataset of (columns, labels, weights), in its own order."""

    def steps():
        first = step()
        while True:
            yield first

    chunks = dataset.unbatch().enumerate().batch(_TEXTS_AT_ONCE)
    chunks = tf.data.Dataset.zip(_steps(steps), chunks)
    return chunks.map(_graph(lambda epoch, chunk: (epoch, chunk[0], *chunk[1])))


def masked_batches(
    chunks: tf.data.Dataset,
    tokenizer: "BertTokenizer",
    masking: TokenMasking | NextTokens,
    *,
    seed: int,
    batch_size: int | None,
    sequence_length: int,
    next_sentence: bool,
    is_counted: bool,
) -> tf.data.Dataset:
    """The rows of chunks of texts, masked, in batches as `pretraining_dataset` gives them.

    Rows that fill up the last batch have weight 0. A text longer than a row becomes windows, which do not overlap. Of
    a pair the longer text is truncated. A text that fits has the masks of `pretraining_dataset` for equal seed, epoch
    and document. With `is_counted` the dataset knows its length, for which all texts are tokenised once more.
    """
    pair = len(chunks.element_spec[2]) == 2
    max_tokens = max_pair_tokens(sequence_length, pair)

    def draw(epoch, numbers, columns, labels, weights):
        ids = [tokenizer.call(column) for column in columns]
        lengths = [tf.cast(segment.row_lengths(), tf.int32) for segment in ids]
        starts = [tf.cast(segment.row_starts(), tf.int32) for segment in ids]
        tokens = tf.concat([*(segment.values for segment in ids), [tokenizer.pad_id]], 0)  # never empty
        if pair:
            keys = example_keys(seed, epoch, numbers, 0)
            a_length, b_length = truncated_lengths(*lengths, max_tokens)
            table = PairTable(starts[0], a_length, tf.size(ids[0].values) + starts[1], b_length, labels, keys)
            row = tf.range(tf.size(labels))
        else:
            row, start, length = sliding_windows(lengths[0], max_tokens, max_tokens)
            is_text = length > 0
            row, start, length = (tf.boolean_mask(column, is_text) for column in (row, start, length))
            window = tf.cast(start // max_tokens, tf.int64)
            keys = example_keys(seed, epoch, tf.gather(numbers, row), window)
            zeros = tf.zeros_like(row)
            table = PairTable(tf.gather(starts[0], row) + start, length, zeros, zeros, tf.gather(labels, row), keys)
        return {"token_ids": tokens}, table, tf.range(tf.size(row) + 1), tf.gather(weights, row)

    drawn = chunks.map(_graph(draw), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    rows = masked_rows(drawn, masking, sequence_length=sequence_length, next_sentence=pair)

    def weigh(inputs, targets, weights, row_weights):
        labels = {"mlm_logits": targets["mlm_logits"]}
        weights = {"mlm_logits": weights["mlm_logits"] * row_weights[:, tf.newaxis]}
        if next_sentence:
            label = targets["nsp_logits"] if pair else tf.fill(tf.shape(row_weights), -1)
            labels["nsp_logits"] = tf.maximum(label, 0)
            weights["nsp_logits"] = row_weights * tf.cast(label >= 0, tf.float32)
        return inputs, labels, weights

    rows = rows.map(_graph(weigh))
    if batch_size is None:
        return rows.rebatch(2**31)
    batches = with_options(filled_batches(rows, batch_size)).prefetch(tf.data.AUTOTUNE)
    if not is_counted:
        return batches
    number = drawn.reduce(tf.constant(0, tf.int64), _graph(lambda n, drawn: n + tf.size(drawn[2], tf.int64) - 1))
    return with_known_length(batches, -(-int(number) // batch_size))


def _steps(numbers):
    return tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))
