"""Strings → batch, for picking one of several choices.

Shapes: B batch, C choices, S sequence.
"""

import keras
import tensorflow as tf

from kbert.preprocessing.preprocessor import Preprocessor
from kbert.preprocessing.strings import string_columns
from kbert.text.packing import content_length, pack_ranges, truncated_lengths


@keras.saving.register_keras_serializable("kbert")
class ChoicePreprocessor(Preprocessor):
    """Tokenises a prompt and its choices, and packs a row ``[CLS] prompt [SEP] choice [SEP]`` for each choice.

    A pair that does not fit loses tokens at the end of its longer text, so a choice is only
    truncated if it is longer than the prompt. Questions with fewer choices than others in the batch
    are filled up with empty strings. A string without tokens, empty or blank, is not a choice: its
    whole row is padding, and `kbert.BertMultipleChoice` gives it no probability.

    Args:
        tokenizer: `kbert.BertTokenizer`.
        sequence_length: S, static.
        **kwargs: name, dtype, trainable.

    Inputs:
        inputs: dict of ``prompt``, strings [B], and ``choices``, strings [B, C]; C may vary. Lists
            of choices may differ in length. Other entries are ignored.

    Outputs:
        dict of ``token_ids`` int32 [B, C, S], ``segment_ids`` int32 [B, C, S], ``padding_mask``
        bool [B, C, S].

    Raises:
        ValueError: a missing column, a column of a wrong shape, a sequence length too short for two
            texts.
        TypeError: columns that do not hold strings.

    Source: Devlin et al. 2018, section 4.4.

    Example::

        preprocessor = ChoicePreprocessor(kbert.BertTokenizer("vocab.txt"), sequence_length=64)
        batch = preprocessor({"prompt": ["A drum line"], "choices": [["passes by.", "is asleep.", "sings."]]})
        batch["token_ids"].shape  # (1, 3, 64)
    """

    input_names = ("prompt", "choices")
    list_columns = ("choices",)

    def __init__(self, tokenizer, sequence_length=128, **kwargs):
        super().__init__(tokenizer, sequence_length, **kwargs)
        content_length(sequence_length, 2)

    def call(self, inputs):
        prompt, choices = string_columns(inputs, self.input_names, type(self).__name__, self.list_columns)
        rows, width = tf.unstack(tf.shape(choices))
        flat = tf.reshape(choices, [-1])  # [B * C]
        tokens = self.tokenizer.call(flat)
        batch = self._pack(self.tokenizer.call(prompt), tokens, tf.repeat(tf.range(rows), width))
        there = (tokens.row_lengths() > 0)[:, tf.newaxis]
        batch = {
            "token_ids": tf.where(there, batch["token_ids"], self.tokenizer.pad_id),
            "segment_ids": tf.where(there, batch["segment_ids"], 0),
            "padding_mask": there & batch["padding_mask"],
        }
        shape = (rows, width, self.sequence_length)
        batch = {name: tf.reshape(tensor, shape) for name, tensor in batch.items()}  # [B, C, S]
        for tensor in batch.values():
            tensor.set_shape((*choices.shape, self.sequence_length))
        return batch

    def _pack(self, prompts, choices, prompt_of):
        """Packs every choice with its prompt, which is tokenised only once: [B * C, S]."""
        a_length = tf.gather(tf.cast(prompts.row_lengths(), tf.int32), prompt_of)  # [B * C]
        b_length = tf.cast(choices.row_lengths(), tf.int32)
        a_length, b_length = truncated_lengths(a_length, b_length, content_length(self.sequence_length, 2))
        filler = tf.fill([1], tf.cast(self.tokenizer.pad_id, tf.int32))  # keeps gathers valid if there are no tokens
        values = [filler, tf.cast(prompts.values, tf.int32), tf.cast(choices.values, tf.int32)]
        a_start = 1 + tf.gather(tf.cast(prompts.row_starts(), tf.int32), prompt_of)
        b_start = 1 + tf.size(values[1]) + tf.cast(choices.row_starts(), tf.int32)
        return pack_ranges(
            tf.concat(values, axis=0),
            a_start,
            a_length,
            b_start,
            b_length,
            sequence_length=self.sequence_length,
            **self.special_ids,
        )

    def compute_output_spec(self, inputs):
        return self.batch_spec(*inputs["choices"].shape)
