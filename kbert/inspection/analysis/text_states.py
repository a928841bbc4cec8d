"""Texts → what an encoder makes of them: tokens, hidden states and attention probabilities.

Shapes: S sequence, H hidden, A heads, L layers.
"""

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np

from kbert.preprocessing.text_preprocessor import TextPreprocessor


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TextStates:
    """A text, or a pair of texts, inside an encoder; without padding.

    Attributes:
        texts: the text, or the two of a pair.
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
        return {
            "token_ids": ids,
            "segment_ids": self.segment_ids[np.newaxis],
            "padding_mask": np.ones(ids.shape, bool),
        }


def encoder_with_attention(encoder):
    """The encoder for plain rows with hidden states and attention probabilities as outputs, sharing all layers."""
    return encoder.with_parts(None).with_outputs("hidden_states", "attention_probs")


def text_states(encoder, tokenizer, texts: Sequence, sequence_length: int = 128) -> list[TextStates]:
    """What an encoder makes of each text.

    Args:
        texts: strings, or tuples of two strings for pairs.
        sequence_length: tokens that are kept of a text, at most the encoder's.

    Returns:
        A `TextStates` for each text. Its numbers are the encoder's, one text at a time.
    """
    encoder, found = encoder_with_attention(encoder), []
    length = min(sequence_length, encoder.config.max_sequence_length)
    vocabulary = tokenizer.vocabulary
    for text in texts:
        parts = (text,) if isinstance(text, str) else tuple(text)
        columns = {name: [part] for name, part in zip(("text", "text_pair"), parts, strict=False)}
        preprocessor = TextPreprocessor(tokenizer, length, pair=len(parts) == 2)
        batch = {name: np.asarray(value) for name, value in preprocessor(columns).items()}
        size = int(batch["padding_mask"].sum())
        batch = {name: value[:, :size] for name, value in batch.items()}
        states, probs = states_and_attention(encoder, batch)
        whole = sum(int(tokenizer([part]).row_lengths()[0]) for part in parts) + len(parts) + 1
        ids = batch["token_ids"][0]
        tokens = [vocabulary[n] for n in ids]
        found.append(TextStates(parts, tokens, ids, batch["segment_ids"][0], states, probs, whole - size))
    return found


def states_and_attention(encoder, batch) -> tuple[np.ndarray, np.ndarray]:
    """Hidden states float32 [L + 1, S, H] and attention float32 [L, A, S, S] of a batch of one row."""
    outputs = encoder(batch, training=False)
    states, probs = (
        np.stack([keras.ops.convert_to_numpy(layer)[0].astype("float32") for layer in outputs[name]])
        for name in ("hidden_states", "attention_probs")
    )
    return states, probs
