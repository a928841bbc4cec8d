"""Names found among tokens in graph: as a loop in Python finds them, and masked as a whole."""

import random

import numpy as np
import pytest
import tensorflow as tf
from helpers.pretraining_batches import B, S, batches, dataset_of, originals
from helpers.tiny_corpus import VOCABULARY, make_tokenizer

from kbert.pretraining.entities import known_names


def reference(sentences, names):
    """The same by a loop: longest names first, from left to right, of one length only those that no other precedes."""
    result = [[0] * len(sentence) for sentence in sentences]
    number = 0
    for length in sorted({len(name) for name in names}, reverse=True):
        for sentence, ids in zip(sentences, result, strict=True):
            found = [
                start
                for start in range(len(sentence) - length + 1)
                if tuple(sentence[start : start + length]) in names
                and not any(ids[start : start + length])
                and not VOCABULARY[sentence[start]].startswith("##")
                and not (sentence[start + length :] and VOCABULARY[sentence[start + length]].startswith("##"))
            ]
            for start in found:
                if not any(start - length < other < start for other in found):
                    number += 1
                    ids[start : start + length] = [number] * length
    return result


def borders(rows):
    """Of ids: which neighbours are of one entity, and which tokens are of none; the numbers themselves may differ."""
    return [([one > 0 for one in row], [a == b and a > 0 for a, b in zip(row, row[1:], strict=False)]) for row in rows]


def test_as_a_loop_finds_them():
    rng, tokenizer = random.Random(0), make_tokenizer()
    names = ["ab c", "c ab", "a b c d", "c d", "z z", "abc", "q", "A.B", "c d ab"]
    ids = {tuple(one) for one in tokenizer(tf.constant(names)).to_list()}
    find, marked = known_names(names, tokenizer), 0
    usable = {one for one in ids if len(one) >= 2}
    for _ in range(60):
        words = [rng.choice(["a", "b", "c", "d", "ab", "abc", "z", ".", "dc", "q"]) for _ in range(rng.randint(0, 40))]
        sentences = tokenizer(tf.constant([" ".join(words[i : i + 9]) for i in range(0, 40, 9)]))
        found = find(sentences)
        assert found.row_lengths().numpy().tolist() == sentences.row_lengths().numpy().tolist()
        expected = reference(sentences.to_list(), usable)
        assert borders(found.to_list()) == borders(expected)
        marked += sum(one > 0 for row in expected for one in row)
    assert marked > 300


def test_a_name_is_whole_words_whatever_its_case():
    tokenizer = make_tokenizer()
    find = known_names(["New York"], tokenizer)
    texts = ["new york", "new yorker", "anew york", "in NEW YORK .", "new", "york new"]
    found = find(tokenizer(tf.constant(texts))).to_list()
    assert [any(row) for row in found] == [True, False, False, True, False, False]
    assert found[3][0] == 0 == found[3][1] and len(set(found[3][2:-1])) == 1 and found[3][-1] == 0


def test_names_that_cannot_be_found():
    with pytest.raises(ValueError, match="expected names of several known tokens. Received: none"):
        known_names(["a", "ω ω", "a b c d e f g h i j k l m"], make_tokenizer())


def test_a_name_is_masked_as_a_whole_or_not_at_all(records, tokenizer):
    """Pairs of letters stand for names; none begins as another ends, so that a truncated row has the same ones."""
    plain = batches(dataset_of(records, tokenizer, max_predictions=8, mask_rate=0.3), 80)
    pairs = {}
    for row in originals(plain).reshape(-1, S):
        words = [VOCABULARY[token] for token in row]
        for one, other, after in zip(words, words[1:], words[2:], strict=False):
            if one in "abcdefghijklm" and other in "nopqrstuvwxyz" and not after.startswith("##"):
                pairs[f"{one} {other}"] = pairs.get(f"{one} {other}", 0) + 1
    names = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:120]
    find = known_names(names, tokenizer)
    some = batches(dataset_of(records, tokenizer, entity_ids=find, max_predictions=8, mask_rate=0.3), 80)
    together = 0
    for (inputs, _, weights), token_ids in zip(some, originals(some).reshape(80, B, S), strict=True):
        ids = find(tf.RaggedTensor.from_tensor(token_ids)).to_tensor(shape=[None, S]).numpy()
        masks = zip(inputs["mask_positions"], weights["mlm_logits"], strict=True)
        for row, tokens, (positions, weight) in zip(ids, token_ids, masks, strict=True):
            chosen = set(positions[weight > 0].tolist())
            for name in set(row[row > 0].tolist()):
                places = set(np.flatnonzero(row == name).tolist())
                if tokens[max(places) + 1] == tokenizer.sep_id:
                    continue  # the word may have been longer before the row was cut
                together += places <= chosen
                assert places <= chosen or not places & chosen
    assert together > 5
