"""Options of the pre-training pipeline, what it refuses, dirty and real text, and `fit` on its batches."""

import functools

import numpy as np
import pytest
from helpers.pretraining_batches import B, S, batches, dataset_of, originals, records_of
from helpers.tiny_corpus import VOCABULARY
from helpers.wrong_values import wrong_inputs, wrong_values

from kbert.corpus.documents import read_documents
from kbert.corpus.records import Records
from kbert.corpus.write_records import write_records
from kbert.pretraining.dataset import pretraining_dataset
from kbert.text.tokenizer import BertTokenizer


def test_whole_words_without_next_sentence(records, tokenizer):
    options = {"next_sentence": False, "whole_word": True, "max_predictions": 8}
    some = batches(dataset_of(records, tokenizer, **options), 20)
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


def test_bad_arguments(records, tokenizer, tmp_path):
    wrong_values(
        functools.partial(dataset_of, records, tokenizer),
        ({"batch_size": 0}, "pretraining_dataset: `batch_size` must be a positive integer. Received: 0"),
        ("sequence_length", 32.5, "a positive integer. Received: 32.5"),
        ("start_step", -1, "an integer of at least 0. Received: -1"),
        ("start_step", True, "an integer of at least 0. Received: True"),
        ("seed", "0", "an integer of at least 0. Received: '0'"),
        ("epochs", 0, "a positive integer"),
        ("batches", -1, "a positive integer"),  # `take(-1)` would give all
        ({"num_parts": 2.0, "packed": True}, "`num_parts` must be a positive integer or None. Received: 2.0"),
        ("dupe_factor", "10", "a positive integer or None. Received: '10'"),
        ("short_sequence_rate", -0.1, r"a number in \[0, 1\]"),
        ("random_next_rate", "0.5", r"a number in \[0, 1\]. Received: '0.5'"),
        ("sequence_length", 4, "at least 5"),
        ("held_out", 1.0, "less than 1, or there is nothing to train on"),
        ("keep_rate", "0.1", r"a number in \[0, 1\]. Received: '0.1'"),
        ({"mask_rate": 0.0}, "mask_rate"),
        ({"held_out": 0.2}, "pretraining_dataset: records have held-out documents of their own.* held_out=0.2"),
    )
    wrong_inputs(
        lambda source: dataset_of(source, tokenizer),
        (str(tmp_path / "none.txt"), "There are no records: .*none.txt is not a directory"),
        (tmp_path, "holds no records"),
    )
    wrong_inputs(
        lambda other: dataset_of(records, other),
        (BertTokenizer([*VOCABULARY[:-2], VOCABULARY[-1], VOCABULARY[-2]]), "another vocabulary of the same size"),
        (BertTokenizer([*VOCABULARY, "more"]), "a vocabulary of 59 tokens"),
        (BertTokenizer(VOCABULARY, lowercase=False), "lowercase=True, received False"),
    )


SINGLE_SENTENCES = [["a b c ."], ["\x00"], ["\x00", "d e ."], ["f"]] * 5


def test_documents_of_one_sentence_and_no_tokens(tokenizer, tmp_path):
    records = records_of(SINGLE_SENTENCES, tmp_path / "records", held_out=0.0)
    some = batches(dataset_of(records, tokenizer), 8)
    assert all((labels["nsp_logits"] == 1).all() for _, labels, _ in some)


@pytest.mark.slow  # rates of masks: test_masking.py, of random sentences: test_pairs.py
def test_real_text(shared_data, tmp_path):
    """Wikipedia and a novel with BERT's own vocabulary: the fractions that the paper's procedure gives."""
    from kbert.text.tokenizer import BertTokenizer

    tokenizer = BertTokenizer(shared_data / "vocab" / "bert-base-uncased" / "vocab.txt")
    source = shared_data / "wikipedia" / "wiki-00005-of-00020.gz"
    from kbert.pretraining.dataset_statistics import dataset_statistics

    records = write_records(read_documents(source), tokenizer, tmp_path / "records")
    report = dataset_statistics(pretraining_dataset(records, tokenizer, batch_size=64), tokenizer, batches=60)
    assert 0.5 < report["random_next_fraction"] < 0.56
    assert 17 < report["masks_per_sequence"] < 19 and report["most_masks"] == 19
    assert report["padding_fraction"] < 0.1 and report["unknown_fraction"] < 0.005
    for name, fraction in (("mask_token_rate", 0.8), ("keep_rate", 0.1), ("random_token_rate", 0.1)):
        assert abs(report[name] - fraction) < 0.01
