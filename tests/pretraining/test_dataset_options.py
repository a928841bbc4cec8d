"""Options of the pre-training pipeline, what it refuses, dirty and real text, and `fit` on its batches."""

import functools
import re

import numpy as np
import pytest
from helpers.pretraining_batches import B, S, batches, dataset_of, originals
from helpers.tiny_corpus import VOCABULARY, write_lines
from helpers.wrong_values import wrong_inputs, wrong_values

from kbert.corpus.records import Records
from kbert.pretraining.dataset import pretraining_dataset
from kbert.text.tokenizer import BertTokenizer


def test_whole_words_without_next_sentence(corpus, tokenizer):
    options = {"next_sentence": False, "whole_word": True, "max_predictions": 8}
    some = batches(dataset_of(corpus, tokenizer, **options), 20)
    assert all(set(labels) == set(weights) == {"mlm_logits"} for _, labels, weights in some)
    token_ids = originals(some)
    assert ((token_ids == tokenizer.sep_id).sum(1) == 1).all()
    assert all((inputs["segment_ids"] == 0).all() for inputs, _, _ in some)
    assert (np.concatenate([inputs["padding_mask"] for inputs, _, _ in some]).sum(1) == S).mean() > 0.4
    assert split_words(some, tokenizer) == 0


def test_masking_options(records):
    """Of records, with the tokenizer that they hold."""
    tokenizer = Records(records).tokenizer()
    options = {
        "mask_rate": 0.3,
        "mask_token_rate": 0.0,
        "keep_rate": 1.0,
        "random_token_rate": 0.0,
        "max_predictions": 7,
    }
    some = batches(dataset_of(records, tokenizer, **options), 5)
    assert len(some) == 5
    for inputs, _, weights in some:
        lengths = inputs["padding_mask"].sum(1)
        assert weights["mlm_logits"].sum(1).tolist() == np.clip(np.round(lengths * 0.3), 1, 7).tolist()
        assert not (inputs["token_ids"] == tokenizer.mask_id).any()


def split_words(some, tokenizer):
    """How many chosen pieces follow a token of their word that is not chosen."""
    continuation = np.array([token.startswith("##") for token in VOCABULARY])
    split = 0
    for (inputs, _, weights), token_ids in zip(some, originals(some).reshape(-1, B, S), strict=True):
        for row, positions, weight in zip(token_ids, inputs["mask_positions"], weights["mlm_logits"], strict=True):
            chosen = set(positions[weight > 0].tolist())
            for position in chosen:
                if continuation[row[position]] and row[position - 1] != tokenizer.sep_id and position > 1:
                    split += position - 1 not in chosen
    return split


def test_documents_without_a_token_are_refused(tokenizer, tmp_path):
    """They were counted, and then dropped: every epoch was empty, and there was no end of them."""
    path, other, empty = tmp_path / "empty.txt", tmp_path / "other.txt", ["\u200b", "\u200b\u200b"]
    write_lines(path, [empty, empty[1:]])
    write_lines(other, [empty])
    for source, received in ((path, path), ([path, other], f"2 files, the first {path}")):
        message = f"Expected at least one token in the documents for training. Received: {re.escape(str(received))}"
        with pytest.raises(ValueError, match=message):
            dataset_of(source, tokenizer, held_out=0.0)
    with pytest.raises(ValueError, match="Expected at least one token in the documents held out"):
        dataset_of(path, tokenizer, held_out=1 - 2**-53, evaluation=True)


def test_bad_arguments(corpus, records, tokenizer, tmp_path):
    wrong_values(
        functools.partial(dataset_of, corpus, tokenizer),
        ({"batch_size": 0}, "pretraining_dataset: `batch_size` must be a positive integer. Received: 0"),
        ("sequence_length", 32.5, "a positive integer. Received: 32.5"),
        ("start_step", -1, "an integer of at least 0. Received: -1"),
        ("start_row", True, "an integer of at least 0. Received: True"),
        ("seed", "0", "an integer of at least 0. Received: '0'"),
        ("epochs", 0, "a positive integer"),
        ("batches", -1, "a positive integer"),  # `take(-1)` would give all
        ("pool_sentences", 0, "a positive integer"),
        ({"num_parts": 2.0, "packed": True}, "`num_parts` must be a positive integer. Received: 2.0"),
        ("dupe_factor", "10", "a positive integer. Received: '10'"),
        ("short_sequence_rate", -0.1, r"a number in \[0, 1\]"),
        ("random_next_rate", "0.5", r"a number in \[0, 1\]. Received: '0.5'"),
        ("sequence_length", 4, "at least 5"),
        ("held_out", 1.0, r"a number in \[0, 1\)"),
        ("keep_rate", "0.1", r"a number in \[0, 1\]. Received: '0.1'"),
        ({"held_out": 0.0, "evaluation": True}, "held_out=0"),
        ({"held_out": 1e-9, "evaluation": True}, "None of .* documents is held out .* such as 0"),
        ({"mask_rate": 0.0}, "mask_rate"),
        ({"format": "csv"}, "Received: 'csv'"),
    )
    wrong_inputs(
        lambda source: dataset_of(source, tokenizer),
        (str(tmp_path / "none"), "No file matches"),
        (tmp_path, "is a directory"),
    )
    wrong_inputs(
        lambda other: dataset_of(records, other),
        (BertTokenizer([*VOCABULARY[:-2], VOCABULARY[-1], VOCABULARY[-2]]), "another vocabulary of the same size"),
        (BertTokenizer([*VOCABULARY, "more"]), "a vocabulary of 59 tokens"),
        (BertTokenizer(VOCABULARY, lowercase=False), "lowercase=True, received False"),
    )


SINGLE_SENTENCES = [["a b c ."], ["\x00"], ["\x00", "d e ."], ["f"]] * 5


def test_documents_of_one_sentence_and_no_tokens(tokenizer, tmp_path):
    corpus = write_lines(tmp_path / "a.txt", SINGLE_SENTENCES)
    some = batches(dataset_of(corpus, tokenizer, held_out=0.0), 8)
    assert all((labels["nsp_logits"] == 1).all() for _, labels, _ in some)


@pytest.mark.slow  # rates of masks: test_masking.py, of random sentences: test_pairs.py
def test_real_text(shared_data):
    """Wikipedia and a novel with BERT's own vocabulary: the fractions that the paper's procedure gives."""
    from kbert.text.tokenizer import BertTokenizer

    tokenizer = BertTokenizer(shared_data / "vocab" / "bert-base-uncased" / "vocab.txt")
    source = shared_data / "wikipedia" / "wiki-00005-of-00020.gz"
    from kbert.pretraining.dataset_statistics import dataset_statistics

    report = dataset_statistics(pretraining_dataset(source, tokenizer, batch_size=64), tokenizer, batches=60)
    assert 0.5 < report["random_next_fraction"] < 0.56
    assert 17 < report["masks_per_sequence"] < 19 and report["most_masks"] == 19
    assert report["padding_fraction"] < 0.1 and report["unknown_fraction"] < 0.005
    for name, fraction in (("mask_token_rate", 0.8), ("keep_rate", 0.1), ("random_token_rate", 0.1)):
        assert abs(report[name] - fraction) < 0.01
