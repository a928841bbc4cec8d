"""The data of a pre-training, and what is said about them before it starts."""

import logging
import math

import numpy as np

from kbert.corpus.names import read_names
from kbert.corpus.records import Records
from kbert.pretraining.aligned_spans import aligned_spans
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.dataset_statistics import dataset_statistics, format_report
from kbert.pretraining.known_names import known_names
from kbert.pretraining.run.evaluate_pretraining import BASELINE_TOKENS, next_sentence_labels
from kbert.pretraining.run.phases import first_row, plan_stages
from kbert.pretraining.unigrams import token_counts, unigram_baseline
from kbert.text.tokenizer import warn_of_unknown

_LOGGER = logging.getLogger("kbert")
_STATISTICS_BATCHES = 20


def make_dataset(settings, tokenizer, stage=None, **which):
    """The batches of a stage of a pre-training.

    The first phase has the seed of the run, each later one the next seed: other pairs, masks and order.

    Args:
        settings: `PretrainingSettings` with `packed` decided.
        stage: `Stage`; None: the first.
        **which: further arguments of `pretraining_dataset`; by default a batch has the rows of a step.
    """
    stage = stage or settings.stages()[0]
    which.setdefault("batch_size", stage.batch_size)
    return pretraining_dataset(
        settings.source,
        tokenizer,
        sequence_length=stage.sequence_length,
        max_predictions=stage.max_predictions,
        seed=settings.seed + stage.phase,
        held_out=settings.held_out,
        entity_ids=_masked_as_a_whole(settings, tokenizer),
        **settings.objective(),
        packed=settings.packed,
        num_parts=settings.num_parts if settings.packed else None,
        **which,
    )


def _masked_as_a_whole(settings, tokenizer):
    """The `entity_ids` of `pretraining_dataset`."""
    if settings.names is not None:
        return known_names(read_names(settings.names), tokenizer)
    return aligned_spans(settings.span_length) if settings.span_length else None


def stage_dataset(settings, tokenizer, start_step, starts, data_service=None):
    """The batches from a step to the end of its stage, as `fit_steps` asks for them; `data_service` may make them."""
    stages = settings.stages()
    row = first_row(stages, starts, start_step)
    return make_dataset(settings, tokenizer, stages[len(starts) - 1], start_row=row, data_service=data_service)


def make_evaluations(settings, tokenizer):
    """The held-out batches of every phase, at its own length: number of the phase → dataset.

    Where an update is computed in parts, so are these: the same rows, in more batches.
    """
    return {
        stage.phase: make_dataset(
            settings,
            tokenizer,
            stage,
            evaluation=True,
            batches=settings.evaluation_batches * settings.accumulate,
            batch_size=stage.batch_size // settings.accumulate,
        )
        for stage in plan_stages(settings.all_phases())
    }


def describe_data(settings, tokenizer, evaluation):
    """What is said of the data before the training.

    Returns:
        (list of the statistics of the training batches of each phase, scores of token frequencies alone on the held-out
        batches, the number of tokens of the training documents or None if it is not known).
    """
    statistics = []
    for stage in {stage.phase: stage for stage in settings.stages()}.values():
        batches = make_dataset(settings, tokenizer, stage)
        statistics.append(dataset_statistics(batches, tokenizer, _STATISTICS_BATCHES, bool(settings.left_to_right)))
        _LOGGER.info("%s", format_report(statistics[-1]))
    warn_of_unknown(statistics[0]["unknown_share"], "the corpus")
    counts = token_counts(settings.source, tokenizer, BASELINE_TOKENS, held_out=settings.held_out)
    unigram = unigram_baseline(counts, evaluation)
    _LOGGER.info(
        "token frequencies alone: loss %.3f, masked-LM accuracy %.1f%%",
        unigram["cross_entropy"],
        100 * unigram["accuracy"],
    )
    if settings.next_sentence:
        labels = next_sentence_labels(evaluation)
        unigram["nsp_accuracy"] = float(labels.max() / labels.sum())
        _LOGGER.info("always the more frequent label: next-sentence accuracy %.1f%%", 100 * unigram["nsp_accuracy"])
    return statistics, unigram, _corpus_tokens(settings, counts)


def baseline_curves(unigram) -> dict:
    """What token frequencies alone, and always the more frequent next sentence label, reach: names as in the logs."""
    loss = unigram["cross_entropy"]
    curves = {"mlm_loss": loss, "mlm_cross_entropy": loss, "mlm_perplexity": float(np.exp(loss))}
    curves |= {"mlm_accuracy": unigram["accuracy"], "loss": loss}
    if (share := unigram.get("nsp_accuracy")) is not None:
        entropy = -sum(p * math.log(p) for p in (share, 1 - share) if p)
        curves |= {"nsp_accuracy": share, "nsp_loss": entropy, "loss": loss + entropy}
    return curves


def _corpus_tokens(settings, counts):
    """Tokens of an epoch: of records as they were counted, of text if all of it was."""
    if settings.reads_records:
        return sum(shard["tokens"] for shard in Records(settings.source).training)
    total = int(counts.sum())
    return total if total < BASELINE_TOKENS else None
