"""Strings with [MASK] in them → batch with the masks' positions.

Shapes: B batch, S sequence, M masks.
"""

import keras
import tensorflow as tf

from kbert.checks import check_bool, check_positive
from kbert.config import default_max_predictions
from kbert.corpus.documents import DocumentList
from kbert.preprocessing.masked_rows import masked_batches, streamed_texts, texts_in_memory
from kbert.preprocessing.preprocessor import Preprocessor
from kbert.preprocessing.strings import check_batches, string_columns
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.masking import OPTIONS, NextTokens, TokenMasking
from kbert.text.packing import content_length, pack_ranges
from kbert.text.special_tokens import check_special_tokens, plain_special_tokens

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

    option_names = ("max_masks", "masking")
    makes_labels = True

    def __init__(
        self,
        tokenizer,
        sequence_length=128,
        max_masks=8,
        special_tokens_in_text=None,
        causal=False,
        masking=None,
        **kwargs,
    ):
        super().__init__(tokenizer.reading_special_tokens(), sequence_length, **kwargs)
        content_length(sequence_length, 1)
        (self.max_masks,) = check_positive("FillMaskPreprocessor", max_masks=max_masks).values()
        self.causal = check_bool(causal, "FillMaskPreprocessor: `causal`")
        if special_tokens_in_text is None:
            special_tokens_in_text = tokenizer.special_tokens_in_text
        self.special_tokens_in_text = check_special_tokens(
            special_tokens_in_text, "FillMaskPreprocessor: `special_tokens_in_text`"
        )
        self.masking = dict(masking or {})
        if unknown := sorted(set(self.masking) - {*OPTIONS, "seed"}):
            raise ValueError(f"FillMaskPreprocessor: `masking` takes {[*OPTIONS, 'seed']}. Received: {unknown}")
        TokenMasking(self.tokenizer, **self.masking)  # checks the values

    def _masking(self):
        """A new layer that masks the texts of `fit`; new, because its state is not used here."""
        tokenizer = self.tokenizer  # [MASK] in a text to learn from is what it is for other tasks
        if tokenizer.special_tokens_in_text != self.special_tokens_in_text:
            own = tokenizer.settings() | {"special_tokens_in_text": self.special_tokens_in_text}
            tokenizer = type(tokenizer)(tokenizer.vocabulary, **own)
        if self.causal:
            return NextTokens(tokenizer, self.sequence_length - 2)
        rate = self.masking.get("mask_rate", 0.15)
        predictions = default_max_predictions(self.sequence_length, rate) if isinstance(rate, float) else 1
        return TokenMasking(tokenizer, **{"max_predictions": predictions, "seed": 0, **self.masking})

    def training_batches(self, x, y=None, weights=None, *, batch_size, next_sentence, step=None, shuffle=True):
        """Masked batches of texts, pairs of texts or documents, for `fit` of a masked language model.

        Args:
            x: strings [B]; a dict or DataFrame with ``text``, and ``text_pair`` for pairs; a
                tf.data.Dataset of such batches, also with labels and weights; or documents, each a
                list of sentences, which become pairs as in `kbert.pretrain`.
            y: of pairs, 0 = IsNext, 1 = random, -1 = not known; also in a dict by ``nsp_logits``.
            weights: a number for each text.
            batch_size: B. None: a single batch, of texts or pairs in memory.
            next_sentence: bool, whether the model has the head.
            step: function that returns the number of the step at which an epoch begins. None: every
                epoch has equal masks.
            shuffle: bool, whether texts in memory come in a new order each epoch.
        """
        masking = self._masking()
        seed = self.masking.get("seed", 0)
        if step is None:
            seed, step, shuffle = _FIXED_SEED, lambda: 0, False
        if batch_size is None and (_are_documents(x) or isinstance(x, tf.data.Dataset)):
            raise TypeError("Pipeline: a single batch is of texts or pairs; documents and datasets are for `fit`.")
        if isinstance(x, tf.data.Dataset) and (y is not None or weights is not None):
            raise ValueError("Pipeline: a dataset has labels and weights in its elements. Received: others beside it")
        if _are_documents(x):
            if y is not None or weights is not None:
                raise ValueError("Pipeline: documents make their own labels, and take no weights. Received: some")
            options = {name: value for name, value in self.masking.items() if name not in ("seed", "max_predictions")}
            return pretraining_dataset(
                x if isinstance(x, DocumentList) else DocumentList(x),
                masking.tokenizer,
                batch_size=batch_size,
                sequence_length=self.sequence_length,
                max_predictions=masking.max_predictions,
                seed=seed,
                epochs=lambda: [step()],
                held_out=0.0,
                next_sentence=next_sentence,
                left_to_right=self.causal,
                **options,
            )
        if isinstance(x, tf.data.Dataset):
            check_batches(x, self.input_names, "Pipeline")
            dataset = x.map(lambda *batch: self._texts(*(batch if len(batch) < 4 else [batch])))
            chunks = streamed_texts(dataset, step=step)
        else:
            chunks = texts_in_memory(*self._texts(x, y, weights), step=step, seed=seed, shuffle=shuffle)
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

    def training_columns(self, x):
        """The columns of texts or pairs: dict of string tensors [B]."""
        if _are_documents(x):
            raise ValueError(
                "Pipeline: `validation_split` divides texts and pairs. Give some of the documents as `validation_data`."
            )
        is_pair = "text_pair" in (x.columns if hasattr(x, "columns") else x if isinstance(x, dict) else ())
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

    def call(self, inputs):
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
        order = tf.pad(order, [[0, 0], [0, max(0, self.max_masks - self.sequence_length)]])[
            :, : self.max_masks
        ]  # [B, M]
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

    def compute_output_spec(self, inputs):
        column = inputs["text"] if isinstance(inputs, dict) else inputs
        size = column.shape[0]
        return {
            **self.batch_spec(size),
            "mask_positions": keras.KerasTensor((size, self.max_masks), dtype="int32"),
            "count": keras.KerasTensor((size,), dtype="int32"),
        }

    def settings(self):
        settings = super().settings()  # of the model, for other tasks: this preprocessor always reads [MASK]
        settings["tokenizer"]["special_tokens_in_text"] = plain_special_tokens(self.special_tokens_in_text)
        return settings

    def get_config(self):
        return {
            **super().get_config(),
            "special_tokens_in_text": plain_special_tokens(self.special_tokens_in_text),
            "causal": self.causal,
        }


def _are_documents(x):
    return isinstance(x, DocumentList) or (isinstance(x, list) and bool(x) and isinstance(x[0], list | tuple))
