"""The data of a pre-training, and what is said about them before it starts."""

import logging

import numpy as np

from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.dataset_statistics import dataset_statistics, format_report
from kbert.pretraining.unigrams import token_counts, unigram_baseline

_LOGGER = logging.getLogger("kbert")
_STATISTICS_BATCHES = 20
_BASELINE_TOKENS = 2_000_000


def make_dataset(settings, tokenizer, **which):
    """The batches of `PretrainingSettings`; `which`: further arguments of `pretraining_dataset`."""
    return pretraining_dataset(
        settings.source,
        tokenizer,
        batch_size=settings.batch_size,
        sequence_length=settings.sequence_length,
        max_predictions=settings.max_predictions,
        seed=settings.seed,
        held_out=settings.held_out,
        next_sentence=settings.next_sentence,
        whole_word=settings.whole_word,
        **which,
    )


def describe_data(settings, tokenizer, evaluation):
    """Statistics of the training batches, and the scores of frequencies alone on the evaluation batches."""
    statistics = dataset_statistics(make_dataset(settings, tokenizer), tokenizer, batches=_STATISTICS_BATCHES)
    _LOGGER.info("%s", format_report(statistics))
    counts = token_counts(settings.source, tokenizer, _BASELINE_TOKENS, held_out=settings.held_out)
    unigram = unigram_baseline(counts, evaluation)
    _LOGGER.info(
        "token frequencies alone: loss %.3f, accuracy %.1f%%", unigram["cross_entropy"], 100 * unigram["accuracy"]
    )
    if settings.next_sentence:
        unigram["nsp_accuracy"] = _most_frequent_share(evaluation)
        _LOGGER.info("always the more frequent next sentence label: accuracy %.1f%%", 100 * unigram["nsp_accuracy"])
    return statistics, unigram


def _most_frequent_share(evaluation):
    """Accuracy of saying for every pair of the evaluation what most of them are."""
    counts = np.zeros(2)
    for _, labels, weights in evaluation.as_numpy_iterator():
        np.add.at(counts, labels["nsp_logits"], weights["nsp_logits"])
    return float(counts.max() / counts.sum())
