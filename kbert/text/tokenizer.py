"""BertTokenizer: strings → token ids, in graph.

Shapes: B strings, V vocabulary.
"""

import functools
import logging
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from kbert.checks import check_option
from kbert.keras_compat import pass_inputs_unchanged
from kbert.text.alignment import align_to_source
from kbert.text.normalizer import Normalizer, valid_utf8
from kbert.text.special_tokens import (
    check_special_tokens,
    insert_sentinels,
    plain_special_tokens,
    sentinels_of,
    source_lengths,
    tokens_in_text,
)
from kbert.text.vocabulary import (
    CLS,
    MASK,
    PAD,
    SEP,
    SPECIAL_TOKENS,
    UNK,
    check_vocabulary,
    read_vocabulary,
    resolve_settings,
    write_vocabulary,
)
from kbert.text.wordpiece import WordPiece

_LOGGER = logging.getLogger("kbert")
_ASSET = "vocab.txt"
_MOST_UNKNOWN = 0.1  # of the tokens: a text in the language of its vocabulary has some hundredths at most
_CHARACTERS = 1000  # looked at in a text


@keras.saving.register_keras_serializable("kbert")
class BertTokenizer(keras.layers.Layer):
    """BERT's tokenizer as a Keras layer over strings, with exactly the ids of the original FullTokenizer.

    Runs eagerly, in tf.data, in functional models on ``keras.Input((), dtype="string")`` and in
    SavedModels. Under Keras on JAX it runs eagerly and in tf.data. It uses only ops that a stock
    TensorFlow Serving has since 2.12, and no lookup tables.

    Args:
        vocabulary: path of a ``vocab.txt``, or a list of the tokens in the order of their ids.
        lowercase: True for the uncased models.
        strip_accents: whether accents are stripped. None: as `lowercase`, like the original.
        split_on_cjk: whether every CJK character is a word of its own, as in the original.
        max_word_length: a longer word, in characters, becomes [UNK]. The original has 200, Hugging
            Face 100.
        special_tokens_in_text: whether a literal ``[MASK]``, ``[SEP]``, ``[CLS]``, ``[UNK]`` or
            ``[PAD]`` in the text becomes that token's id. The original has no such option: it
            splits at the brackets. Or a list of at most 37 tokens of the vocabulary, such as
            ``["[E1]", "[/E1]"]``. They are read in texts exactly as they are written, also inside
            words, and never masked in pre-training.

    Inputs:
        strings [B] (bytes, read as UTF-8); also a single string, or strings of more dimensions,
        ragged or not.

    Outputs:
        ragged int32 ids [B, None], without [CLS] and [SEP]. A single string gives [None], more
        dimensions give one more.

    Raises:
        FileNotFoundError: no vocabulary at the path.
        ValueError: a vocabulary that is not valid for BERT, an invalid `max_word_length`, a flag
            that is not a bool; in a call, values that are not strings.

    Source: google-research/bert, tokenization.py, FullTokenizer (the code of Devlin et al. 2018).

    Example::

        tokenizer = BertTokenizer("vocab.txt", lowercase=True)
        ids = tokenizer(tf.constant(["Hello, world!", "naïve café"]))
        tokenizer.detokenize(ids)  # ["hello , world !", "naive cafe"]
    """

    def __init__(
        self,
        vocabulary: str | os.PathLike | Sequence[str] | None,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_on_cjk: bool = True,
        max_word_length: int = 200,
        special_tokens_in_text: bool | Sequence[str] = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        is_number = isinstance(max_word_length, int) and not isinstance(max_word_length, bool)
        if not is_number or not 0 < max_word_length <= 1_000_000:
            raise ValueError(f"`max_word_length` must be an integer from 1 to 1,000,000. Received: {max_word_length!r}")
        self.supports_jit = False  # XLA has no strings
        pass_inputs_unchanged(self)
        self.lowercase = check_option("BertTokenizer", "lowercase", lowercase, bool)
        if strip_accents is not None:
            strip_accents = check_option("BertTokenizer", "strip_accents", strip_accents, bool)
        self.strip_accents = strip_accents
        self.split_on_cjk = check_option("BertTokenizer", "split_on_cjk", split_on_cjk, bool)
        self.max_word_length = max_word_length
        self.special_tokens_in_text = check_special_tokens(special_tokens_in_text, "BertTokenizer")
        self._words = None
        self.built = True
        if vocabulary is not None:
            if isinstance(vocabulary, (str, os.PathLike)):
                vocabulary = read_vocabulary(vocabulary)
            self._set_vocabulary(vocabulary)

    def _set_vocabulary(self, tokens):
        check_vocabulary(tokens)
        read = tokens_in_text(self.special_tokens_in_text)
        if missing := [token for token in read if token not in tokens]:
            raise ValueError(
                f"BertTokenizer: `special_tokens_in_text` must be tokens of the vocabulary. Received: {missing}, which "
                "are none. kbert.weights.extend_vocabulary adds them to a model"
            )
        settings = resolve_settings(self.settings()) | {"special_tokens_in_text": read}
        self._words = _words(tuple(tokens), **settings)

    def _known(self):
        if self._words is None:
            raise ValueError(
                f"The tokenizer {self.name!r} has no vocabulary: it was made from a config alone. Load it with the "
                "model it was saved in (keras.models.load_model), or pass `vocabulary`."
            )
        return self._words

    @property
    def vocabulary(self) -> list[str]:
        """The tokens, in the order of their ids."""
        return list(self._known().tokens)

    @property
    def vocabulary_size(self) -> int:
        return len(self._known().tokens)

    def token_to_id(self, token: str) -> int:
        """The id of a token; KeyError if it is not in the vocabulary."""
        try:
            return self._known().ids[token]
        except KeyError:
            raise KeyError(f"The vocabulary ({self.vocabulary_size} tokens) does not contain {token!r}.") from None

    def id_to_token(self, id: int) -> str:
        """The token of an id; IndexError if there is none."""
        if not 0 <= id < self.vocabulary_size:
            raise IndexError(f"Ids go from 0 to {self.vocabulary_size - 1}. Received: {id}")
        return self._known().tokens[id]

    pad_id = property(lambda self: self.token_to_id(PAD))
    unk_id = property(lambda self: self.token_to_id(UNK))
    cls_id = property(lambda self: self.token_to_id(CLS))
    sep_id = property(lambda self: self.token_to_id(SEP))
    mask_id = property(lambda self: self.token_to_id(MASK))

    @property
    def own_special_ids(self) -> list[int]:
        """The ids of `special_tokens_in_text` that are not BERT's own."""
        tokens = tokens_in_text(self.special_tokens_in_text)
        return sorted(self.token_to_id(token) for token in tokens if token not in SPECIAL_TOKENS)

    def call(self, strings: str | Sequence | np.ndarray | tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor | tf.Tensor:
        return _by_row(strings, lambda rows: self._known().pieces(rows)[0])

    def tokenize(
        self, strings: str | Sequence | np.ndarray | tf.Tensor | tf.RaggedTensor
    ) -> tf.RaggedTensor | tf.Tensor:
        """Strings to ids, as calling the layer does."""
        return self(strings)

    def pieces(self, strings: str | Sequence | np.ndarray | tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor | tf.Tensor:
        """The word pieces of ids, ragged strings [B, None]; pieces inside a word begin with ``##``."""
        return tf.gather(tf.constant(self._known().tokens), self.call(strings))

    def tokenize_with_offsets(
        self, strings: str | Sequence | np.ndarray | tf.Tensor | tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor | tf.Tensor, tf.RaggedTensor | tf.Tensor, tf.RaggedTensor | tf.Tensor]:
        """The ids, and where in the strings they come from.

        Returns:
            (ids, starts, ends), ragged int32 [B, None]. `strings[i][starts[i, j]:ends[i, j]]`,
            counted in code points, is the text of ids[i, j] with its accents, always in whole
            characters. If a string is not UTF-8, its code points are counted after
            ``bytes.decode("utf-8", "ignore")``.
        """
        return _by_row(strings, self._known().pieces_with_spans)

    def detokenize(self, ids: Sequence | np.ndarray | tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Ids [B, None] to strings [B]: tokens joined by spaces, ``##`` pieces to the piece before them."""
        tokens = tf.gather(tf.constant(self._known().tokens), _tensor(ids))
        return tf.strings.regex_replace(tf.strings.reduce_join(tokens, axis=-1, separator=" "), " ##", "")

    def compute_output_spec(self, strings: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor((*strings.shape, None), dtype="int32", ragged=True)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments except the vocabulary, as plain data."""
        return {
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "split_on_cjk": self.split_on_cjk,
            "max_word_length": self.max_word_length,
            "special_tokens_in_text": plain_special_tokens(self.special_tokens_in_text),
        }

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "vocabulary": None, **self.settings()}

    def reading_special_tokens(self) -> Self:
        """This tokenizer, or one with equal settings that reads BERT's special tokens in texts."""
        own = tokens_in_text(self.special_tokens_in_text)
        if set(SPECIAL_TOKENS) <= set(own):
            return self
        read = [*SPECIAL_TOKENS, *(token for token in own if token not in SPECIAL_TOKENS)] if own else True
        return type(self)(self.vocabulary, **{**self.settings(), "special_tokens_in_text": read})

    def save_assets(self, directory: str | os.PathLike) -> None:
        write_vocabulary(pathlib.Path(directory) / _ASSET, self._known().tokens)

    def load_assets(self, directory: str | os.PathLike) -> None:
        self._set_vocabulary(read_vocabulary(pathlib.Path(directory) / _ASSET))


def check_tokenizer(tokenizer: Any, owner: str) -> None:
    """Raises TypeError unless this is a `BertTokenizer`, not a path or another library's tokenizer."""
    if not isinstance(tokenizer, BertTokenizer):
        raise TypeError(
            f'{owner}: `tokenizer` must be a kbert.BertTokenizer, as kbert.BertTokenizer("vocab.txt") makes it. '
            f"Received: {type(tokenizer).__name__}"
        )


def unknown_fraction(tokenizer: BertTokenizer, columns: Iterable[Sequence]) -> float:
    """The fraction of [UNK] among the tokens at the beginnings of the texts in columns."""
    texts = [text[:_CHARACTERS] for column in columns for text in np.ravel(np.asarray(column, object))]
    ids = tokenizer(texts or [""]).flat_values.numpy()
    return float(np.mean(ids == tokenizer.unk_id)) if ids.size else 0.0


def warn_of_unknown(fraction: float, texts: str) -> None:
    """Logs a warning if so many tokens are [UNK] that the vocabulary is probably of another language."""
    if fraction >= _MOST_UNKNOWN:
        _LOGGER.warning(
            "%s: %.0f %% of the tokens are [UNK], of which a model learns nothing. Expected a vocabulary of the "
            "language of the texts: use a model of it (google-bert/bert-base-multilingual-cased has 104 languages), or "
            "learn a vocabulary for a pre-training (kbert vocabulary)",
            *(texts, 100 * fraction),
        )


@functools.lru_cache(maxsize=8)
def _words(tokens, **settings):
    """The cached `_Words` of a tuple of tokens: a tokenizer of any size then takes 50 ms to make."""
    return _Words(tokens, **settings)


class _Words:
    """Everything made from the vocabulary, in one plain object: Keras would track 30,000 strings singly."""

    def __init__(self, tokens, lowercase, strip_accents, split_on_cjk, max_word_length, special_tokens_in_text):
        self.tokens = tokens
        self.ids = {token: i for i, token in enumerate(tokens)}
        self._read_in_text = special_tokens_in_text
        aliases = {sentinel: self.ids[token] for token, sentinel in sentinels_of(special_tokens_in_text).items()}
        self._normalizer = Normalizer(lowercase, strip_accents, not split_on_cjk, separated="".join(aliases))
        self._word_piece = WordPiece(tokens, aliases, not split_on_cjk, max_word_length)

    def pieces(self, strings):
        """Strings [B] to ragged (ids, starts, ends) [B, None], in bytes of the normalised strings."""
        if self._read_in_text:
            strings = insert_sentinels(valid_utf8(strings), self._read_in_text)
        return self._word_piece.pieces(self._normalizer(strings))

    def pieces_with_spans(self, strings):
        """Strings [B] to ragged int32 (ids, starts, ends) [B, None], in code points of the strings."""
        strings = valid_utf8(strings)
        ids, starts, ends = self.pieces(strings)
        if self._read_in_text:
            lengths = functools.partial(source_lengths, tokens=self._read_in_text)
            strings = insert_sentinels(strings, self._read_in_text)
        else:
            lengths = tf.ones_like
        return ids, *align_to_source(strings, self._normalizer, starts, ends, lengths)


def _tensor(value):
    return value if isinstance(value, tf.RaggedTensor) else tf.convert_to_tensor(value)


def _by_row(strings, function):
    """Applies `function` (strings [B] to ragged [B, None]) to a string, or to strings of any number of dimensions."""
    strings = _tensor(strings)
    if strings.dtype != tf.string:
        raise ValueError(f"BertTokenizer expects strings. Received: {strings.dtype.name} of shape {strings.shape}")
    rank = strings.shape.rank
    if rank == 0:
        return tf.nest.map_structure(lambda rows: rows[0], function(strings[tf.newaxis]), expand_composites=False)
    if rank == 1:
        return function(strings)
    if not isinstance(strings, tf.RaggedTensor):
        strings = tf.RaggedTensor.from_tensor(strings, ragged_rank=rank - 1)
    rows = function(strings.flat_values)
    return tf.nest.map_structure(strings.with_flat_values, rows, expand_composites=False)
