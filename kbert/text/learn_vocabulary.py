"""Learning a WordPiece vocabulary: count the words that the tokenizer will see, then choose pieces."""

import itertools
import logging
import math
import time
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

import tensorflow as tf

from kbert.checks import Bounds
from kbert.options import Count, checked
from kbert.text.normalizer import CJK, Normalizer
from kbert.text.vocabulary import CLS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK

_LOGGER = logging.getLogger("kbert")
_UNUSED = 99  # [unused0] to [unused98], so that [UNK] [CLS] [SEP] [MASK] get the ids 100 to 103, as BERT's
_SMALLEST_WITH_UNUSED = 2000  # a smaller vocabulary has none
_SMALLEST = 100
_WORDS = 100_000  # the most frequent ones are learned from: over 99 % of a large English corpus
_WORD_LENGTH = 50  # characters; longer ones are addresses and noise
_COVERAGE = 0.9995  # of all characters, by the alphabet
_SURPLUS = 0.02  # a threshold that gives this much more than asked for is good enough: the rarest pieces are cut
_BATCH_CHARACTERS = 1 << 20
_SECONDS = 5  # between two lines of progress


@checked
def learn_vocabulary(
    lines: Iterable[str],
    size: Annotated[int, Bounds(f"[{_SMALLEST}, inf)")],
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_on_cjk: bool = True,
    max_characters: Count | None = None,
) -> list[str]:
    """Learns a vocabulary of `size` tokens, for a `BertTokenizer` with equal settings.

    The pieces are chosen by tensorflow-text's learner. It is Google's algorithm: pieces are counted
    from long to short and kept if they reach a minimum count, which is found by search. Only the
    counts of words matter. So the order of lines and files makes no difference, and a text always
    gives one vocabulary.

    Reserved tokens have BERT's ids: [PAD] 0, [unused0] to [unused98] 1 to 99, [UNK] 100, [CLS] 101,
    [SEP] 102, [MASK] 103. Below 2,000 tokens there are no unused ones. Then come the characters,
    alone and as pieces, so that no word made of them is unknown. The other pieces follow, most
    frequent first.

    Args:
        lines: texts of any length.
        size: how many tokens. If the text has fewer different pieces, there are fewer: compare the
            length.
        lowercase, strip_accents, split_on_cjk: see `BertTokenizer`.
        max_characters: how many different characters; the most frequent ones are kept. None: as
            many as make up 99.95 % of the text, but at least 1,000 (a tenth of a smaller
            vocabulary).

    Returns:
        The tokens, in the order of their ids.

    Raises:
        ValueError: a size below 100, a `max_characters` that is no positive integer, a flag that is
            not a bool, a single string for `lines`, or no word in the text.
    """
    if isinstance(lines, str | bytes):
        raise ValueError(f"`lines` must be several texts, not a single one or a path. Received: {lines[:60]!r}")
    strip_accents = lowercase if strip_accents is None else strip_accents
    separated = CJK if split_on_cjk else ""
    normalizer = Normalizer(lowercase, strip_accents, split_words=True, separated=separated)
    counts = count_words(lines, normalizer)
    if not counts:
        raise ValueError("The corpus contains no words: there is nothing to learn a vocabulary from.")
    reserved = reserved_tokens(size)
    alphabet = _alphabet(counts, size - len(reserved), max_characters)
    fixed = [*reserved, *sorted(alphabet), *_pieces_of_one(alphabet, separated)]
    return _fill(fixed, counts, alphabet, size)


def reserved_tokens(size: int) -> list[str]:
    """The tokens that a vocabulary of `size` starts with."""
    unused = [f"[unused{i}]" for i in range(_UNUSED)] if size >= _SMALLEST_WITH_UNUSED else []
    return [PAD, *unused, UNK, CLS, SEP, MASK]


def count_words(lines: Iterable[str], normalizer: Normalizer) -> Counter[str]:
    """Counts the words of texts: normalised strings, split at spaces."""
    counts = Counter()
    total = 0
    characters = 0
    shown = time.monotonic()
    normalize = tf.function(normalizer, input_signature=[tf.TensorSpec([None], tf.string)])
    for batch in _batches(lines):
        words = b" ".join(normalize(tf.constant(batch)).numpy()).split()
        counts.update(words)
        total += len(words)
        characters += sum(map(len, batch))
        if time.monotonic() - shown > _SECONDS:
            shown = time.monotonic()
            _log_counts(characters, total, counts)
    _log_counts(characters, total, counts)
    return Counter({word.decode(): count for word, count in counts.items()})


def _log_counts(characters, total, counts):
    _LOGGER.info(
        "read %.1f million characters, %s words, %s different", characters / 1e6, f"{total:,}", f"{len(counts):,}"
    )


def _batches(lines):
    """Lists of texts of about a million characters."""
    batch, characters = [], 0
    for number, line in enumerate(lines):
        if not isinstance(line, str | bytes):
            raise ValueError(f"`lines`[{number}]: expected str. Received: {str(line)[:60]}")
        batch.append(line)
        characters += len(line)
        if characters > _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _alphabet(counts, max_tokens, max_characters):
    """The most frequent characters for the vocabulary; in a tie the smaller code point comes first."""
    characters = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    ranked = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
    if max_characters is None:
        sums = itertools.accumulate(count for _, count in ranked)
        covering = sum(covered < _COVERAGE * characters.total() for covered in sums) + 1
        max_characters = max(covering, min(1000, max_tokens // 10))
    return {character for character, _ in ranked[: min(max_characters, max_tokens // 3)]}  # each takes up to two tokens


def _pieces_of_one(alphabet, separated):
    """The characters as pieces inside words; punctuation and CJK characters are always words of their own."""
    characters = sorted(alphabet)
    normalizer = Normalizer(lowercase=False, strip_accents=False, split_words=True, separated=separated)
    forms = normalizer(tf.constant(characters)).numpy()
    return [f"##{c}" for c, form in zip(characters, forms, strict=True) if form.decode() == c]


def _fill(fixed, counts, alphabet, size):
    """`fixed` and the most frequent longer pieces, up to `size`."""
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    settings = learner.Params(
        upper_thresh=None,
        lower_thresh=None,
        num_iterations=4,
        max_input_tokens=_WORDS,
        max_token_length=_WORD_LENGTH,
        max_unique_chars=len(alphabet),
        vocab_size=size,
        slack_ratio=0.0,
        include_joiner_token=True,
        joiner="##",
        reserved_tokens=list(SPECIAL_TOKENS),
    )
    words = learner.get_input_words(sorted(counts.items()), settings.reserved_tokens, _WORD_LENGTH)
    words = learner.filter_input_words(words, alphabet, _WORDS)
    in_vocabulary = {*fixed, *(f"##{character}" for character in alphabet)}
    wanted = size - len(fixed)

    def pieces(threshold):
        tokens = learner.learn_with_thresh(words, threshold, settings) if words else []
        frequent = [token for token in tokens if token not in in_vocabulary]
        _LOGGER.info("frequency threshold %s: %s of %s pieces", f"{threshold:,}", f"{len(frequent):,}", f"{wanted:,}")
        return frequent

    start = words[min(wanted, len(words) - 1)][1] if words else 1
    return fixed + _search(pieces, wanted, start)[:wanted]


def _search(pieces, wanted, start):
    """`pieces(threshold)` for the highest threshold that gives enough; thresholds are tried from `start` on.

    The number of pieces is roughly a power of the threshold, which suggests the next one to try.
    """
    low, high = 0, math.inf  # thresholds known to give enough and too few
    best = []
    threshold = max(start, 1)
    while wanted > 0 and high - low > 1:
        frequent = pieces(threshold)
        if len(frequent) >= wanted:
            low, best = threshold, frequent
            if len(frequent) <= (1 + _SURPLUS) * wanted:
                break
        else:
            high = threshold
            if threshold == 1:
                return frequent
        guess = round(threshold * (max(len(frequent), 1) / wanted) ** 1.2)
        if not low < guess < high:
            guess = (low + high) // 2 if high < math.inf else 2 * threshold
        threshold = guess
    return best
