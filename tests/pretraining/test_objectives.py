"""Other objectives than the paper's: next tokens, spans and names, pairs and masks that come again."""

import dataclasses
import random

import numpy as np
import pytest
import tensorflow as tf
from helpers.pretraining_batches import B, S, assert_equal, batches, dataset_of, originals
from helpers.tiny_corpus import VOCABULARY, make_tokenizer

from kbert.corpus.records import Records
from kbert.pretraining.dataset_statistics import dataset_statistics, format_report
from kbert.pretraining.entities import known_names, read_names
from kbert.pretraining.masking import NextTokens
from kbert.pretraining.row_sampler import RowSampler

LTR = {"left_to_right": True, "next_sentence": False, "max_predictions": S - 2}


@pytest.fixture(scope="module")
def next_tokens(records, tokenizer):
    return dataset_of(records, tokenizer, **LTR)


def predictions(inputs, labels, weights):
    """{(text, place): predicted token} of a batch, with the texts as bytes; packed or not."""
    found = {}
    for row in range(len(inputs["token_ids"])):
        parts = inputs["part_ids"][row] if "part_ids" in inputs else inputs["padding_mask"][row].astype(int)
        used = weights["mlm_logits"][row] > 0
        for place, token in zip(inputs["mask_positions"][row][used], labels["mlm_logits"][row][used], strict=True):
            [own] = np.nonzero(parts == parts[place])
            found[inputs["token_ids"][row, own].tobytes(), int(place - own[0])] = int(token)
    return found


def test_every_token_is_predicted_from_the_place_before_it(next_tokens, tokenizer):
    for inputs, labels, weights in batches(next_tokens, 8):
        for row in range(B):
            tokens = inputs["token_ids"][row][inputs["padding_mask"][row]]
            assert tokens[0] == tokenizer.cls_id and tokens[-1] == tokenizer.sep_id
            assert not (tokens == tokenizer.mask_id).any()
            used = weights["mlm_logits"][row] > 0
            assert inputs["mask_positions"][row][used].tolist() == list(range(len(tokens) - 2))
            assert labels["mlm_logits"][row][used].tolist() == tokens[1:-1].tolist()
            assert not labels["mlm_logits"][row][~used].any()


def test_pairs_skip_the_separator(records, tokenizer):
    for inputs, labels, weights in batches(dataset_of(records, tokenizer, **LTR | {"next_sentence": True}), 4):
        assert set(labels) == {"mlm_logits", "nsp_logits"}
        real = inputs["padding_mask"].sum(1)
        assert weights["mlm_logits"].sum(1).tolist() == (real - 3).tolist()  # [CLS] and both [SEP]
        assert not np.isin(labels["mlm_logits"][weights["mlm_logits"] > 0], [tokenizer.cls_id, tokenizer.sep_id]).any()


def test_the_report_of_next_tokens(next_tokens, records, tokenizer):
    statistics = dataset_statistics(next_tokens, tokenizer, 5, left_to_right=True)
    assert statistics["mask_token_rate"] is statistics["keep_rate"] is None
    assert "of next tokens" in format_report(statistics) and "[MASK]" not in format_report(statistics)
    sampler = RowSampler(masking=NextTokens(tokenizer, S - 2), seed=0, sequence_length=S, next_sentence=False)
    pool = Records(records).index(0)
    plain, packed = (dataclasses.replace(sampler, num_parts=parts).real_fraction(pool) for parts in (None, 4))
    assert 0 < plain <= packed <= 1


def test_next_tokens_refuses_no_predictions(tokenizer):
    with pytest.raises(ValueError, match="NextTokens: `max_predictions` must be a positive integer. Received: 0"):
        NextTokens(tokenizer, 0)


@pytest.mark.slow  # the draws of an epoch: test_pairs.py
@pytest.mark.parametrize("packed", [False, True])
def test_pairs_and_masks_come_again_after_dupe_factor_epochs(records, tokenizer, packed):
    """With 2 the third epoch has the rows of the first, in another order; a factor of 1 has no other rows at all."""

    options = {"packed": packed, "batch_size": 1, "epochs": 3}

    def epochs(three, number):
        """The rows of three epochs; the first and the third have equally many."""
        epochs = three[:number], three[number:-number], three[-number:]
        return [[predictions(*batch) for batch in epoch] for epoch in epochs]

    def content(epoch):
        return {key: token for row in epoch for key, token in row.items()}

    same = batches(dataset_of(records, tokenizer, dupe_factor=1, **options))
    number = len(same) // 3  # as many as in the first epoch of any factor
    assert len(same) == 3 * number
    first, second, third = epochs(same, number)
    assert content(first) == content(second) == content(third)
    first, second, third = epochs(batches(dataset_of(records, tokenizer, dupe_factor=2, **options)), number)
    assert content(first) == content(third) != content(second) and first != third

    # A skip counts the rows of repeated epochs.
    late = batches(dataset_of(records, tokenizer, start_step=len(same) - 10, dupe_factor=1, **options))
    assert_equal(same[-10:], late)


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
    usable = {one for one in ids if len(one) >= 2}
    texts = []
    for _ in range(60):
        words = [rng.choice(["a", "b", "c", "d", "ab", "abc", "z", ".", "dc", "q"]) for _ in range(rng.randint(0, 40))]
        texts += [" ".join(words[i : i + 9]) for i in range(0, 40, 9)]
    sentences = tokenizer(tf.constant(texts))
    found = known_names(names, tokenizer)(sentences)
    assert found.row_lengths().numpy().tolist() == sentences.row_lengths().numpy().tolist()
    expected = reference(sentences.to_list(), usable)
    assert borders(found.to_list()) == borders(expected)
    assert sum(one > 0 for row in expected for one in row) > 300


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


def test_a_file_of_names(tmp_path):
    path = tmp_path / "names.txt"
    path.write_bytes(b"\xef\xbb\xbfNew York\n\n John Smith\n")
    assert read_names(path) == ["New York", "John Smith"]
    path.write_text("\n")
    with pytest.raises(ValueError, match="names.txt: expected names, one a line. Received: an empty file"):
        read_names(path)
    path.write_bytes(b"New York\nS\xe3o Paulo\n")
    with pytest.raises(ValueError, match="names.txt: invalid UTF-8 at byte 10"):
        read_names(path)


def test_a_name_is_masked_as_a_whole_or_not_at_all(records, record_batches, tokenizer):
    """Pairs of letters stand for names; none begins as another ends, so that a truncated row has the same ones."""
    pairs = {}
    for row in originals(record_batches[:80]):
        words = [VOCABULARY[token] for token in row]
        for one, other, after in zip(words, words[1:], words[2:], strict=False):
            if one in "abcdefghijklm" and other in "nopqrstuvwxyz" and not after.startswith("##"):
                pairs[f"{one} {other}"] = pairs.get(f"{one} {other}", 0) + 1
    names = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:120]
    find = known_names(names, tokenizer)
    some = batches(dataset_of(records, tokenizer, entity_ids=find, max_predictions=8, mask_rate=0.3), 80)
    together = 0
    found = find(tf.RaggedTensor.from_tensor(originals(some))).to_tensor(shape=[None, S]).numpy()
    for (inputs, _, weights), token_ids, ids in zip(
        some, originals(some).reshape(80, B, S), found.reshape(80, B, S), strict=True
    ):
        assert set(inputs) == {"token_ids", "segment_ids", "padding_mask", "mask_positions"}
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
