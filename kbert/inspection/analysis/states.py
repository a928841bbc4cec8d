"""What probes, comparisons of layers and pictures read: states and attention of texts, one vector a layer for words.

Shapes: n words (or texts), W windows, A heads, S sequence, L layers, H hidden.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from kbert.preprocessing.buckets import limit_batch_size, padding_for, trim_padding
from kbert.preprocessing.preprocessor import TextPreprocessor
from kbert.preprocessing.window_preprocessors import TaggingPreprocessor

if TYPE_CHECKING:
    from kbert.config import BertConfig
    from kbert.models.encoder import BertEncoder
    from kbert.text.tokenizer import BertTokenizer

_INPUTS = ("token_ids", "segment_ids", "padding_mask")


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
        row, truncated = text_row(tokenizer, parts, length, encoder.config)
        row = {name: np.asarray(value) for name, value in row.items()}
        states, probs = states_and_attention(encoder, row)
        ids = row["token_ids"][0]
        tokens = [vocabulary[n] for n in ids]
        of_texts.append(TextStates(parts, tokens, ids, row["segment_ids"][0], states, probs, truncated))
    return of_texts


def text_row(
    tokenizer: "BertTokenizer", parts: Sequence[str], sequence_length: int, config: "BertConfig | None"
) -> tuple[dict[str, tf.Tensor], int]:
    """An unpadded batch of one text or pair, and the number of its tokens that did not fit.

    Raises:
        ValueError: a pair for a model of this config, which reads single texts.
    """
    if config is not None and len(parts) == 2:
        check_reads_pairs(config)
    columns = {name: [part] for name, part in zip(("text", "text_pair"), parts, strict=False)}
    batch = TextPreprocessor(tokenizer, sequence_length, pair=len(parts) == 2)(columns)
    size = int(np.asarray(batch["padding_mask"]).sum())
    row = {name: value[:, :size] for name, value in batch.items()}
    return row, truncated_tokens(tokenizer, parts, size)


def check_reads_pairs(config: "BertConfig") -> None:
    """Raises ValueError if a model has no second segment."""
    if config.num_segments == 1:
        raise ValueError("The model has only one segment, so it cannot read a pair of texts.")


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
    layers = range(encoder.config.num_layers + 1)
    vectors = np.empty((len(place), len(layers), encoder.config.hidden_dim), "float32")
    for start, states in window_states(encoder.with_parts(None).with_outputs("hidden_states"), batch, layers):
        inside = np.flatnonzero((window >= start) & (window < start + len(states)))
        vectors[inside] = states[window[inside] - start, position[inside]]
    return vectors


def mean_states(
    encoder: "BertEncoder", tokenizer: "BertTokenizer", texts: Sequence, *, sequence_length: int = 128
) -> np.ndarray:
    """The mean hidden state of every layer over the tokens of each text or pair, float32 [n, L + 1, H]."""
    length = min(sequence_length, encoder.config.max_sequence_length)
    pair = not isinstance(texts[0], str)
    columns = {"text": [text[0] for text in texts], "text_pair": [text[1] for text in texts]} if pair else texts
    batch = {name: np.asarray(value) for name, value in TextPreprocessor(tokenizer, length, pair)(columns).items()}
    layers = range(encoder.config.num_layers + 1)
    vectors = []
    for start, states in window_states(encoder.with_parts(None).with_outputs("hidden_states"), batch, layers):
        real = batch["padding_mask"][start : start + len(states), : states.shape[1], np.newaxis, np.newaxis]
        vectors.append((states * real).sum(axis=1) / real.sum(axis=1))
    return np.concatenate(vectors)


def window_states(
    encoder: "BertEncoder", batch: Mapping[str, np.ndarray], layers: Sequence[int], batch_size: int = 32
) -> Iterator[tuple[int, np.ndarray]]:
    """The hidden states of all rows of a preprocessor's batch, a few rows at a time.

    Args:
        encoder: has the output ``hidden_states``.

    Yields:
        The number of the first row, and float32 [up to batch_size, S', L, H]. S' is what the longest of the rows needs.
    """
    batch_size = limit_batch_size(batch_size, len(batch["token_ids"]))
    for start in range(0, len(batch["token_ids"]), batch_size):
        part = {name: batch[name][start : start + batch_size] for name in _INPUTS}
        count = len(part["token_ids"])
        # One size, so that the model is traced only once; filler rows are dropped.
        part = {name: np.concatenate([v, np.repeat(v[-1:], batch_size - count, axis=0)]) for name, v in part.items()}
        part = trim_padding({name: tf.constant(v) for name, v in part.items()}, padding_for(encoder))
        states = encoder.predict_on_batch(part)["hidden_states"]
        yield start, np.stack([np.asarray(states[n], "float32")[:count] for n in layers], axis=2)
