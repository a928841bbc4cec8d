"""What probes, comparisons of layers and pictures read: states and attention of texts, one vector a layer for words.

Shapes: n words (or texts), W windows, A heads, S sequence, L layers, H hidden.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from kbert.preprocessing.preprocessor import TextPreprocessor
from kbert.preprocessing.window_preprocessors import TaggingPreprocessor

if TYPE_CHECKING:
    from kbert.models.encoder import BertEncoder
    from kbert.text.tokenizer import BertTokenizer

_INPUTS = ("token_ids", "segment_ids", "padding_mask")
_BATCH = 32  # windows or texts in a forward pass


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TextStates:
    """A text, or a pair of texts, inside an encoder; without padding.

    Attributes:
        tokens: word pieces, with [CLS] and [SEP].
        token_ids, segment_ids: int32 [S].
        hidden_states: float32 [L + 1, S, H], the embeddings first.
        attention: float32 [L, A, S, S].
        truncated: how many tokens did not fit.
    """

    texts: tuple[str, ...]
    tokens: list[str]
    token_ids: np.ndarray
    segment_ids: np.ndarray
    hidden_states: np.ndarray
    attention: np.ndarray
    truncated: int = 0

    @property
    def batch(self) -> dict[str, np.ndarray]:
        """The batch of this text alone, as the encoder takes it."""
        ids = self.token_ids[np.newaxis]
        segments = self.segment_ids[np.newaxis]
        return {"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones(ids.shape, bool)}


def encoder_with_attention(encoder: "BertEncoder") -> "BertEncoder":
    """The encoder for plain rows, sharing all layers, with hidden states and attention as outputs."""
    return encoder.with_parts(None).with_outputs("hidden_states", "attention_probs")


def text_states(
    encoder: "BertEncoder", tokenizer: "BertTokenizer", texts: Sequence, sequence_length: int = 128
) -> list[TextStates]:
    """The `TextStates` of each text or pair (a tuple of two strings), computed one text at a time."""
    encoder = encoder_with_attention(encoder)
    length = min(sequence_length, encoder.config.max_sequence_length)
    vocabulary = tokenizer.vocabulary
    of_texts = []
    for text in texts:
        parts = (text,) if isinstance(text, str) else tuple(text)
        row, truncated = text_row(tokenizer, parts, length)
        row = {name: np.asarray(value) for name, value in row.items()}
        states, probs = states_and_attention(encoder, row)
        ids = row["token_ids"][0]
        tokens = [vocabulary[n] for n in ids]
        of_texts.append(TextStates(parts, tokens, ids, row["segment_ids"][0], states, probs, truncated))
    return of_texts


def text_row(
    tokenizer: "BertTokenizer", parts: Sequence[str], sequence_length: int
) -> tuple[dict[str, tf.Tensor], int]:
    """The batch of one text or pair alone, without padding, and how many of its tokens did not fit."""
    columns = {name: [part] for name, part in zip(("text", "text_pair"), parts, strict=False)}
    batch = TextPreprocessor(tokenizer, sequence_length, pair=len(parts) == 2)(columns)
    size = int(np.asarray(batch["padding_mask"]).sum())
    row = {name: value[:, :size] for name, value in batch.items()}
    return row, truncated_tokens(tokenizer, parts, size)


def truncated_tokens(tokenizer: "BertTokenizer", texts: Sequence[str], size: int) -> int:
    """How many tokens of a text or pair are not in its row of `size` tokens."""
    return int(tokenizer(tf.constant(texts)).row_lengths().numpy().sum()) + len(texts) + 1 - size


def states_and_attention(encoder: "BertEncoder", batch: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Hidden states float32 [L + 1, S, H] and attention float32 [L, A, S, S] of a batch of one row."""
    outputs = encoder(batch, training=False)
    states, probs = (
        np.stack([keras.ops.convert_to_numpy(layer)[0].astype("float32") for layer in outputs[name]])
        for name in ("hidden_states", "attention_probs")
    )
    return states, probs


def word_states(
    encoder: "BertEncoder", tokenizer: "BertTokenizer", sentences: Sequence, *, sequence_length: int = 128
) -> np.ndarray:
    """The hidden states of the first token of every word, float32 [n, L + 1, H], the embeddings first.

    Sentences are lists of words; long ones are read in windows.

    Source: Devlin et al. 2018, section 5.3.
    """
    length = min(sequence_length, encoder.config.max_sequence_length)
    words = tf.ragged.constant([list(words) for words in sentences], dtype=tf.string, ragged_rank=1)
    batch = {name: np.asarray(value) for name, value in TaggingPreprocessor(tokenizer, length).windows(words).items()}
    place = batch["word_position"][batch["word_position"] >= 0]  # [n] in the flat [W * S]
    window, position = np.divmod(place, length)
    vectors = np.empty((len(place), encoder.config.num_layers + 1, encoder.config.hidden_dim), "float32")
    for windows, states, _ in _batches(encoder, batch):
        for row, number in enumerate(windows):
            words_of_window = np.flatnonzero(window == number)
            vectors[words_of_window] = states[:, row, position[words_of_window]].swapaxes(0, 1)
    return vectors


def mean_states(
    encoder: "BertEncoder", tokenizer: "BertTokenizer", texts: Sequence, *, sequence_length: int = 128
) -> np.ndarray:
    """The mean hidden state of every layer over the tokens of each text or pair, float32 [n, L + 1, H]."""
    length = min(sequence_length, encoder.config.max_sequence_length)
    pair = not isinstance(texts[0], str)
    columns = {"text": [text[0] for text in texts], "text_pair": [text[1] for text in texts]} if pair else texts
    batch = {name: np.asarray(value) for name, value in TextPreprocessor(tokenizer, length, pair)(columns).items()}
    vectors = np.empty((len(texts), encoder.config.num_layers + 1, encoder.config.hidden_dim), "float32")
    for rows, states, mask in _batches(encoder, batch):
        real = mask[np.newaxis, :, :, np.newaxis]
        vectors[rows] = ((states * real).sum(axis=2) / real.sum(axis=2)).swapaxes(0, 1)
    return vectors


def _batches(encoder, batch):
    """Yields (row numbers, states [L + 1, rows, S', H], mask [rows, S']), similar lengths together."""
    plain = encoder.with_parts(None).with_outputs("hidden_states")
    sizes = batch["padding_mask"].sum(axis=-1)
    order = np.argsort(sizes, kind="stable")
    for start in range(0, len(order), _BATCH):
        rows = order[start : start + _BATCH]
        inputs = {name: batch[name][rows, : sizes[rows].max()] for name in _INPUTS}
        states = plain(inputs, training=False)["hidden_states"]
        states = np.stack([keras.ops.convert_to_numpy(layer).astype("float32") for layer in states])
        yield rows, states, inputs["padding_mask"]
