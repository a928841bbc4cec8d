"""What a pre-training on text, TFRecords or records reads, and what is said about it before the training starts."""

import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np

from kbert.corpus.names import read_names
from kbert.corpus.records import Records
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.dataset_statistics import dataset_statistics, format_report, token_counts, unigram_baseline
from kbert.pretraining.entities import aligned_spans, known_names
from kbert.pretraining.real_shares import choose_packing
from kbert.pretraining.run.evaluate_pretraining import BASELINE_TOKENS, next_sentence_labels
from kbert.pretraining.run.phases import first_row, plan_stages
from kbert.pretraining.run.starting_model import starting_model
from kbert.pretraining.sources import check_held_out
from kbert.pretraining.tfrecords import check_tfrecords, is_tfrecords
from kbert.text.tokenizer import warn_of_unknown
from kbert.training.dry_run import count_sequences
from kbert.training.run_state import Stage
from kbert.weights.save import save_pretrained

_LOGGER = logging.getLogger("kbert")
_STATISTICS_BATCHES = 20


class CorpusData:
    """A corpus as a run learns from it; `stored_batches.StoredBatches` is the same of batches.

    Args:
        settings: `PretrainingSettings`.
        data_service: of `kbert.pretrain`; it makes the batches of training.

    Attributes:
        settings: with `packed` decided once there is a model.
        tokenizer, vocabulary, tokenizer_settings: once there is a model.

    Raises:
        ValueError: no documents for training or for evaluation.
    """

    def __init__(self, settings, data_service: str | None = None):
        self.settings, self.data_service = settings, data_service
        if is_tfrecords(settings.source):
            check_tfrecords(settings.source, settings.held_out)
        else:
            check_held_out(settings.source, settings.held_out)

    def starting_model(self, hardware, keep_given: bool = False):
        """The model that the run starts from; with `keep_given` a copy of one that is given."""
        model, self.tokenizer = starting_model(self.settings, hardware, keep_given)
        self.vocabulary = self.tokenizer.vocabulary
        self.tokenizer_settings = self.tokenizer.settings()
        self.settings = choose_packing(self.settings, self.tokenizer)
        return model

    def batches(self, stage: Stage, **which):
        """The batches of a stage.

        The first phase has the seed of the run, each later one the next seed: other pairs, masks and order.

        Args:
            **which: further arguments of `pretraining_dataset`; by default a batch has the rows of a step.
        """
        settings = self.settings
        which.setdefault("batch_size", stage.batch_size)
        return pretraining_dataset(
            settings.source,
            self.tokenizer,
            sequence_length=stage.sequence_length,
            max_predictions=stage.max_predictions,
            seed=settings.seed + stage.phase,
            held_out=settings.held_out,
            entity_ids=self._masked_as_a_whole(),
            **settings.objective(),
            packed=settings.packed,
            num_parts=settings.num_parts if settings.packed else None,
            **which,
        )

    def _masked_as_a_whole(self):
        """The `entity_ids` of `pretraining_dataset`."""
        settings = self.settings
        if settings.names is not None:
            return known_names(read_names(settings.names), self.tokenizer)
        return aligned_spans(settings.span_length) if settings.span_length else None

    def from_step(self, start_step: int, starts: Sequence[int]):
        """The batches from a step to the end of its stage, as `fit_steps` asks for them."""
        stages = self.settings.stages()
        row = first_row(stages, starts, start_step)
        return self.batches(stages[len(starts) - 1], start_row=row, data_service=self.data_service)

    def evaluations(self) -> dict:
        """The held-out batches of every phase, at its own length: number of the phase → dataset.

        Where an update is computed in parts, so are these: the same rows, in more batches.
        """
        parts = self.settings.accumulate
        return {
            stage.phase: self.batches(
                stage,
                evaluation=True,
                batches=self.settings.evaluation_batches * parts,
                batch_size=stage.batch_size // parts,
            )
            for stage in plan_stages(self.settings.all_phases())
        }

    def count_sequences(self) -> dict:
        """For a dry run: `sequences_per_epoch` of the first phase; `sequences_are_all`, whether there was time."""
        sequences, complete = count_sequences(self.batches(self.settings.stages()[0], epochs=1))
        return {"sequences_per_epoch": sequences, "sequences_are_all": complete}

    def describe(self, evaluation) -> tuple[list[float], dict, int | None]:
        """What is said of the data before the training.

        Returns:
            (for each phase the share of tokens that are not padding; for the metrics, the statistics of the training
            batches, and the scores of token frequencies alone on the held-out batches; the number of tokens of the
            training documents or None if it is not known).
        """
        settings, statistics = self.settings, []
        for stage in {stage.phase: stage for stage in settings.stages()}.values():
            batches, left_to_right = self.batches(stage), bool(settings.left_to_right)
            statistics.append(dataset_statistics(batches, self.tokenizer, _STATISTICS_BATCHES, left_to_right))
            _LOGGER.info("%s", format_report(statistics[-1]))
        warn_of_unknown(statistics[0]["unknown_share"], "the corpus")
        counts = token_counts(settings.source, self.tokenizer, BASELINE_TOKENS, held_out=settings.held_out)
        unigram = unigram_baseline(counts, evaluation)
        _LOGGER.info(
            "token frequencies alone: loss %.3f, masked-LM accuracy %.1f%%",
            unigram["cross_entropy"],
            100 * unigram["accuracy"],
        )
        if settings.next_sentence:
            labels = next_sentence_labels(evaluation)
            unigram["nsp_accuracy"] = float(labels.max() / labels.sum())
            share = 100 * unigram["nsp_accuracy"]
            _LOGGER.info("always the more frequent label: next-sentence accuracy %.1f%%", share)
        real = [1 - one["padding_share"] for one in statistics]
        metrics = {"unigram": unigram, "data": statistics[0] if len(statistics) == 1 else statistics}
        return real, metrics, self._corpus_tokens(counts)

    def _corpus_tokens(self, counts):
        """Tokens of an epoch: of records as they were counted, of text if all of it was."""
        if self.settings.reads_records:
            return sum(shard["tokens"] for shard in Records(self.settings.source).training)
        total = int(counts.sum())
        return total if total < BASELINE_TOKENS else None

    def baseline(self, metrics: Mapping) -> dict:
        """What token frequencies, and always the more frequent label, reach, as curves: names as in the logs."""
        unigram = metrics["unigram"]
        loss = unigram["cross_entropy"]
        curves = {"mlm_loss": loss, "mlm_cross_entropy": loss, "mlm_perplexity": float(np.exp(loss))}
        curves |= {"mlm_accuracy": unigram["accuracy"], "loss": loss}
        if (share := unigram.get("nsp_accuracy")) is not None:
            entropy = -sum(p * math.log(p) for p in (share, 1 - share) if p)
            curves |= {"nsp_accuracy": share, "nsp_loss": entropy, "loss": loss + entropy}
        return curves

    def save(self, model, settings, path, made_by) -> None:
        """Writes the model of the run."""
        save_pretrained(model, path, tokenizer=self.tokenizer, settings=settings, made_by=made_by, overwrite=True)
