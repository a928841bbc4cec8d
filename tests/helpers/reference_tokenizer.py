"""BERT's tokenizer in plain Python, character by character, written from the facts: what kbert's ops are held to.

Every character carries its place in the source, so that pieces come with offsets. Slow and obvious on purpose.
"""

import functools
import unicodedata

CJK = (  # the blocks that the original calls Chinese; Hangul, Hiragana and Katakana are written with spaces or in words
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@functools.cache
def is_cjk(char):
    return any(first <= ord(char) <= last for first, last in CJK)


@functools.cache
def is_space(char):
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


@functools.cache
def is_deleted(char):
    return char in "\0\ufffd" or (unicodedata.category(char) in ("Cc", "Cf") and char not in "\t\n\r")


@functools.cache
def is_punctuation(char):
    code = ord(char)
    symbol = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return symbol or unicodedata.category(char).startswith("P")


@functools.cache
def is_mark(char):
    return unicodedata.category(char) == "Mn"


class ReferenceTokenizer:
    """`pieces(text)` lists (id, start, end); start and end are characters of `text`, half-open."""

    def __init__(
        self,
        vocabulary,
        lowercase=True,
        strip_accents=None,
        split_on_cjk=True,
        max_word_length=200,
        special_tokens_in_text=False,
    ):
        self.ids = {token: i for i, token in enumerate(vocabulary)}
        self.longest = max(map(len, vocabulary))
        self.lowercase = lowercase
        self.strip_accents = lowercase if strip_accents is None else strip_accents
        self.split_on_cjk = split_on_cjk
        self.max_word_length = max_word_length
        own = special_tokens_in_text if isinstance(special_tokens_in_text, list) else None
        self.special_tokens = own or (SPECIAL_TOKENS if special_tokens_in_text else ())
        # Spaces divide whatever stands beside them, and most words come again.
        self._ids_of = functools.lru_cache(2**18)(lambda word: [piece for piece, _ in self._found(word)])

    def __call__(self, text):
        return [piece for word in as_text(text).split(" ") for piece in self._ids_of(word)]

    def pieces(self, text):
        text = as_text(text)
        found = ((piece, list(indices)) for piece, indices in self._found(text))
        return [(piece, min(indices), self._with_marks(text, max(indices))) for piece, indices in found]

    def _found(self, text):
        """(id, indices of its characters) of each piece."""
        for part, start in self._parts(text):
            if part in self.special_tokens:
                yield self.ids[part], range(start, start + len(part))
            else:
                for piece, characters in self._pieces_of_part(part):
                    yield piece, (start + index for _, index in characters)

    def _parts(self, text):
        """Cuts the text at literal special tokens."""
        if not self.special_tokens:
            yield text, 0
            return
        start = position = 0
        while position < len(text):
            special = next((token for token in self.special_tokens if text.startswith(token, position)), None)
            if special is None:
                position += 1
                continue
            yield text[start:position], start
            yield special, position
            start = position = position + len(special)
        yield text[start:], start

    def _pieces_of_part(self, text):
        for word in self._words(self._cleaned(text)):
            if self.lowercase:
                word = lowered(word)
            if self.strip_accents:
                word = decomposed(word)
            for run in split_at_punctuation(word):
                yield from self._word_pieces(run)

    def _cleaned(self, text):
        """(character, index) of what is left, with spaces set round CJK characters (index None)."""
        for index, char in enumerate(text):
            if is_deleted(char):
                continue
            if is_space(char):
                yield " ", index
            elif self.split_on_cjk and is_cjk(char):
                yield from ((" ", None), (char, index), (" ", None))
            else:
                yield char, index

    @staticmethod
    def _words(characters):
        """Splits where str.split() does: at U+2028 and U+2029 too, which are left although they are not Zs."""
        word = []
        for char, index in characters:
            if char.isspace():
                yield word
                word = []
            else:
                word.append((char, index))
        yield word

    def _word_pieces(self, word):
        """Greedy longest match; the whole word is [UNK] if a part of it matches nothing or if it is too long."""
        if len(word) > self.max_word_length:
            return [(self.ids["[UNK]"], word)]
        pieces, start = [], 0
        while start < len(word):
            for end in range(min(len(word), start + self.longest), start, -1):
                token = ("##" if start else "") + "".join(char for char, _ in word[start:end])
                if token in self.ids:
                    break
            else:
                return [(self.ids["[UNK]"], word)]
            pieces.append((self.ids[token], word[start:end]))
            start = end
        return pieces

    def _with_marks(self, text, last):
        """The end of a span whose last character is `last`: behind the stripped marks that belong to it."""
        end = position = last + 1
        while position < len(text):
            char = text[position]
            stripped = self.strip_accents and all(map(is_mark, unicodedata.normalize("NFD", char)))
            if stripped:
                end = position + 1
            elif not is_deleted(char):
                break
            position += 1
        return end


def as_text(text):
    return text.decode("utf-8", "ignore") if isinstance(text, bytes) else text


def lowered(word):
    """str.lower of the whole word (the sigma at its end depends on what surrounds it), one index per new character."""
    text = "".join(char for char, _ in word).lower()
    indices = [index for char, index in word for _ in char.lower()]
    assert len(text) == len(indices)
    return list(zip(text, indices, strict=True))


def decomposed(word):
    """NFD without the characters of category Mn, each with the index of the character that it came from."""
    parts = [(part, index) for char, index in word for part in unicodedata.normalize("NFD", char)]
    ordered = []
    for part, index in parts:  # canonical ordering: marks of a lower class move before marks of a higher one
        position = len(ordered)
        rank = unicodedata.combining(part)
        while rank and position and unicodedata.combining(ordered[position - 1][0]) > rank:
            position -= 1
        ordered.insert(position, (part, index))
    assert "".join(part for part, _ in ordered) == unicodedata.normalize("NFD", "".join(char for char, _ in word))
    return [(part, index) for part, index in ordered if not is_mark(part)]


def split_at_punctuation(word):
    runs = [[]]
    for char, index in word:
        if is_punctuation(char):
            runs += [[(char, index)], []]
        else:
            runs[-1].append((char, index))
    return [run for run in runs if run]
