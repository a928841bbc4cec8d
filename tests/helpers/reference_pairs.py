"""Sentence pairs as the original makes them: a plain-Python transcription of reference/paper.md C2, rules 3 to 6.

The walk, the put-back and the truncation are loops over sentences and single tokens. Where the original asks its random
generator, this asks `draws`, so that the same loops run on a sequential generator (`SequentialDraws`, the original's
way) and on the keyed numbers that kbert uses (`KeyedDraws`), which makes an exact comparison possible.
"""

import random


class SequentialDraws:
    """One generator for everything, as in the original."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def is_short(self, document, rate):
        return self.random.random() < rate

    def short_target(self, document, max_tokens):
        return self.random.randint(2, max_tokens)

    def a_end(self, document, i, size):
        return self.random.randint(1, size - 1)

    def is_random(self, document, i, rate):
        return self.random.random() < rate

    def document(self, document, i, attempt, num_documents):
        return self.random.randint(0, num_documents - 1)

    def start(self, document, i, size):
        return self.random.randint(0, size - 1)

    def front(self, document, i, which, cut):
        return self.random.random() < 0.5


class KeyedDraws:
    """The numbers kbert draws: SplitMix64 of (seed, epoch, document, sentence), in Python integers."""

    def __init__(self, seed, epoch, document_ids):
        self.keys = [fold_in(seed, 1, epoch, document_id) for document_id in document_ids]

    def is_short(self, document, rate):
        return uniform(fold_in(self.keys[document], 0), 0) < rate

    def short_target(self, document, max_tokens):
        return integer(fold_in(self.keys[document], 1), 0, 2, max_tokens + 1)

    def a_end(self, document, i, size):
        return integer(fold_in(self.keys[document], i, 2), 0, 1, size)

    def is_random(self, document, i, rate):
        return uniform(fold_in(self.keys[document], i, 3), 0) < rate

    def document(self, document, i, attempt, num_documents):
        return integer(fold_in(self.keys[document], i, 4), attempt, 0, num_documents)

    def start(self, document, i, size):
        return integer(fold_in(self.keys[document], i, 5), 0, 0, size)

    def front(self, document, i, which, cut):
        return bool(fold_in(self.keys[document], i, 6 if which == "a" else 7, cut // 64) >> cut % 64 & 1)


def make_pairs(documents, draws, max_tokens, short_sequence_rate=0.1, random_next_rate=0.5):
    """Instances (tokens_a, tokens_b, is_random, document, first sentence, target) of one visit to each document."""
    instances = []
    for index in range(len(documents)):
        instances += make_document_pairs(documents, index, draws, max_tokens, short_sequence_rate, random_next_rate)
    return instances


def make_document_pairs(documents, index, draws, max_tokens, short_sequence_rate, random_next_rate):
    document = documents[index]
    target = max_tokens
    if draws.is_short(index, short_sequence_rate):
        target = draws.short_target(index, max_tokens)
    instances, chunk, length, i = [], [], 0, 0
    while i < len(document):
        chunk.append(document[i])
        length += len(document[i])
        if i == len(document) - 1 or length >= target:
            first = i - len(chunk) + 1
            a_end = 1
            if len(chunk) >= 2:
                a_end = draws.a_end(index, first, len(chunk))
            tokens_a = [token for sentence in chunk[:a_end] for token in sentence]
            tokens_b = []
            is_random = len(chunk) == 1 or draws.is_random(index, first, random_next_rate)
            if is_random:
                wanted = target - len(tokens_a)
                for attempt in range(10):
                    other = draws.document(index, first, attempt, len(documents))
                    if other != index:
                        break
                start = draws.start(index, first, len(documents[other]))
                for sentence in documents[other][start:]:
                    tokens_b.extend(sentence)
                    if len(tokens_b) >= wanted:
                        break
                i -= len(chunk) - a_end
            else:
                tokens_b = [token for sentence in chunk[a_end:] for token in sentence]
            truncate(tokens_a, tokens_b, max_tokens, lambda which, cut, at=first: draws.front(index, at, which, cut))
            instances.append((tokens_a, tokens_b, is_random, index, first, target))
            chunk, length = [], 0
        i += 1
    return instances


def truncate(tokens_a, tokens_b, max_tokens, front):
    """Drops single tokens from the longer list (B if equal) until both fit, from its front if `front(which, cut)`."""
    cuts = {"a": 0, "b": 0}
    while len(tokens_a) + len(tokens_b) > max_tokens:
        which, longer = ("a", tokens_a) if len(tokens_a) > len(tokens_b) else ("b", tokens_b)
        if front(which, cuts[which]):
            del longer[0]
        else:
            longer.pop()
        cuts[which] += 1


MASK = 2**64 - 1


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def fold_in(key, *data):
    key &= MASK
    for number in data:
        key = mix((key + (number + 1) * 0x9E3779B97F4A7C15) & MASK)
    return key


def draw(key, column):
    return mix(((key ^ 0xD1B54A32D192ED03) + (column + 1) * 0x9E3779B97F4A7C15) & MASK)


def uniform(key, column):
    return (draw(key, column) >> 40) / 2**24


def integer(key, column, low, high):
    return low + ((draw(key, column) >> 32) * (high - low) >> 32)
