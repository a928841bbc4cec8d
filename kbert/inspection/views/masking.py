"""What was masked and guessed: in a batch of a training, or in a text that is masked as the training does it.

Shapes: S sequence, P predictions, V vocabulary, N labels.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np

from kbert.config import MASK_RATE

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel
    from kbert.text.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True)
class MaskedToken:
    """A token of a masked row.

    Attributes:
        segment: 0 or 1.
        original, corrupted: the token, and what the model reads in its place.
        is_chosen: whether the model has to predict it.
        guesses: the model's most probable tokens with their probabilities, best first; empty: it made none.
        label_probability: the probability of `original`, or None.
    """

    segment: int
    original: str
    corrupted: str
    is_chosen: bool = False
    guesses: tuple[tuple[str, float], ...] = ()
    label_probability: float | None = None

    @property
    def kind(self) -> str:
        """What a chosen token became, "[MASK]", "random" or "kept"; of others the empty string."""
        if not self.is_chosen:
            return ""
        if self.corrupted == self.original:
            return "kept"  # also a random token that happens to be the same: the model cannot tell
        return "[MASK]" if self.corrupted == "[MASK]" else "random"


def masked_tokens(
    token_ids: Sequence[int],
    segment_ids: Sequence[int],
    places: Sequence[int],
    labels: Sequence[int],
    vocabulary: Sequence[str],
    logits: np.ndarray | None = None,
    guesses: int = 1,
) -> list[MaskedToken]:
    """The tokens of one row without padding.

    Args:
        token_ids: what the model reads.
        places, labels: the positions of the P chosen tokens, and their original ids.
        logits: the model's logits for the chosen tokens, float [P, V]. Without them there are no guesses.
        guesses: number of guesses for each chosen token.
    """
    pieces = [piece(vocabulary, n) for n in token_ids]
    tokens = [MaskedToken(int(segment), one, one) for one, segment in zip(pieces, segment_ids, strict=True)]
    for number, (place, label) in enumerate(zip(places, labels, strict=True)):
        predicted = {}
        if logits is not None:
            probabilities = softmax(logits[number])
            best = np.argsort(-probabilities, kind="stable")[:guesses].tolist()
            predicted["guesses"] = tuple((piece(vocabulary, n), float(probabilities[n])) for n in best)
            predicted["label_probability"] = float(probabilities[label])
        original = piece(vocabulary, label)
        tokens[place] = dataclasses.replace(tokens[place], original=original, is_chosen=True, **predicted)
    return tokens


def piece(vocabulary: Sequence[str], token_id: int) -> str:
    """A token, or its number in brackets if the model's table has more rows than the vocabulary has tokens."""
    return vocabulary[token_id] if token_id < len(vocabulary) else f"[{token_id}]"


@dataclasses.dataclass(frozen=True)
class MaskedText:
    """A masked text.

    Attributes:
        truncated: number of tokens that did not fit.
    """

    tokens: list[MaskedToken]
    truncated: int

    def count(self, kind: str) -> int:
        """How many chosen tokens are of this `MaskedToken.kind`."""
        return sum(token.kind == kind for token in self.tokens)

    @property
    def chosen(self) -> list[MaskedToken]:
        return [token for token in self.tokens if token.is_chosen]

    @property
    def loss(self) -> float | None:
        """The mean cross entropy of the chosen tokens in nats, the loss of the training. None without guesses."""
        fractions = [token.label_probability for token in self.chosen]
        return None if None in fractions or not fractions else float(-np.log(np.maximum(fractions, 1e-30)).mean())


def mask_text(
    tokenizer: "BertTokenizer",
    texts: Sequence[str],
    model: "BertModel | None" = None,
    *,
    mask_rate: float = MASK_RATE,
    mask_token_rate: float = 0.8,
    random_token_rate: float = 0.1,
    keep_rate: float = 0.1,
    whole_word: bool = False,
    seed: int = 0,
    sequence_length: int = 512,
    guesses: int = 3,
) -> MaskedText:
    """Masks a text or a pair with `kbert.pretraining.TokenMasking`, and asks a model for the chosen tokens.

    A left-to-right model and one without a masked-LM head are not asked.

    Args:
        texts: one text or a pair.
        mask_rate, mask_token_rate, random_token_rate, keep_rate, whole_word: of `TokenMasking`.
        seed: determines the masks, with the key that the first text of a training would have.
        guesses: number of guesses for each chosen token.

    Raises:
        ValueError: rates or texts that `TokenMasking` or `TextPreprocessor` does not take, or a pair for a model of one
            segment.
    """
    # Not above: a training on batches, without TensorFlow, shows masked tokens.
    import tensorflow as tf

    from kbert.inspection.analysis.states import text_row
    from kbert.pretraining.masking import TokenMasking
    from kbert.stateless_random import fold_in

    row, truncated = text_row(tokenizer, texts, sequence_length, model and model.config)
    masking = TokenMasking(
        tokenizer,
        row["token_ids"].shape[1],
        mask_rate,
        mask_token_rate,
        keep_rate,
        random_token_rate,
        whole_word,
    )
    batch, labels, weights = masking(row, keys=fold_in(seed, tf.zeros([1], tf.int64)))
    chosen = int(tf.reduce_sum(weights))
    logits = None
    if model is not None and "mlm_logits" in model.output and not model.config.causal and chosen:
        inputs = {name: batch[name] for name in model.input}
        inputs["mask_positions"] = batch["mask_positions"][:, :chosen]
        logits = keras.ops.convert_to_numpy(model(inputs, training=False)["mlm_logits"]).astype("float32")[0]
    columns = (batch["token_ids"], row["segment_ids"], batch["mask_positions"][:, :chosen], labels[:, :chosen])
    columns = [np.asarray(column)[0].tolist() for column in columns]
    tokens = masked_tokens(*columns, tokenizer.vocabulary, logits, guesses)
    return MaskedText(tokens, truncated)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of logits [..., N]."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
