"""What a pre-training on records or TFRecords reads, and what is said about it before the training starts."""

import dataclasses
import logging
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kbert.corpus.corpus_files import find_files, is_tfrecords
from kbert.corpus.documents import DocumentList
from kbert.corpus.held_out import HELD_OUT
from kbert.corpus.records import Records
from kbert.corpus.records_manifest import is_records
from kbert.corpus.text_records import write_text_records
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.dataset_statistics import (
    BASELINE_TOKENS,
    dataset_statistics,
    format_report,
    next_sentence_labels,
    token_counts,
    unigram_baseline,
)
from kbert.pretraining.entities import known_names, read_names
from kbert.pretraining.masking import NextTokens, TokenMasking
from kbert.pretraining.record_pools import check_shards
from kbert.pretraining.row_sampler import RowSampler
from kbert.pretraining.run.course import Course, Stage, first_row, plan_stages
from kbert.pretraining.run.source import DataReport, RowOptions
from kbert.pretraining.run.starting_model import Start, starting_model
from kbert.pretraining.tfrecords import check_tfrecords
from kbert.text.tokenizer import BertTokenizer, warn_of_unknown
from kbert.training.dry_run import count_sequences
from kbert.weights.save import save_pretrained

if TYPE_CHECKING:
    import tensorflow as tf

    from kbert.models.pretrainer import BertPretrainer
    from kbert.pipelines.settings import ModelSettings
    from kbert.training.hardware import Hardware


_LOGGER = logging.getLogger("kbert")
_STATISTICS_BATCHES = 20
_BEGINNING = 1 << 23  # characters of text that a dry run reads
_LEAST_GAIN = 1.05  # times as many real tokens in a row: what attention within parts costs, and a little more


class CorpusData:
    """Records or TFRecords as a run learns from them; `stored_batches.StoredBatches` is the same for batches.

    Records are opened once. Of text they are written by `write_records`, which needs the tokenizer of the model.

    Args:
        source: directory of records, paths of TFRecords, or text (`kbert.pretraining.run.source.corpus_source`).
        rows: `RowOptions`.
        course: `Course`.
        seed: int.
        parts: micro-batches of a batch.

    Attributes:
        packed: bool, or None until `choose_packing` has decided.
        tokenizer: `kbert.BertTokenizer`, once there is a model.
    """

    def __init__(self, source: Any, rows: RowOptions, course: Course, seed: int, parts: int = 1):
        self.source = source
        self.rows = rows
        self.course = course
        self.seed = seed
        self.parts = parts
        self.packed = rows.packed
        self.held_out: float | None = HELD_OUT if rows.held_out is None else rows.held_out  # of text and TFRecords
        if is_tfrecords(source):
            check_tfrecords(source, self.held_out)
        elif isinstance(source, Records) or is_records(source):
            if rows.held_out is not None:
                raise ValueError(
                    "pretrain: records have held-out documents of their own (`held_out` of "
                    f"kbert.corpus.write_records). Received: held_out={rows.held_out}"
                )
            self.held_out = None
            self._open(source)

    def _open(self, records):
        self.source = records if isinstance(records, Records) else Records(records)
        for evaluation in (True, False):
            check_shards(self.source, evaluation)

    def write_records(
        self, directory: str | os.PathLike, hardware: "Hardware | None", output: str | os.PathLike | None, dry_run: bool
    ) -> None:
        """Writes text to records; of several workers with an `output` the first does, and the others wait."""
        text = self.source if isinstance(self.source, DocumentList) else find_files(self.source, output=output)
        if output is None or hardware.is_chief:
            try:
                write_text_records(
                    text,
                    self.tokenizer,
                    directory,
                    held_out=self.held_out,
                    characters=_BEGINNING if dry_run else None,
                )
            except Exception as error:
                if output is not None:
                    hardware.wait_for_all(str(error) or repr(error))  # so that the others end, too
                raise
        if output is not None:
            hardware.wait_for_all()
        self._open(directory)

    def starting_model(self, start: Start, hardware: "Hardware", keep_given: bool = False) -> "BertPretrainer":
        """The model that the run starts from; with `keep_given` a copy of one that is given."""
        records = self.source if isinstance(self.source, Records) else None
        model, tokenizer = starting_model(start, self.rows, self.course, hardware, records, keep_given)
        self.take_tokenizer(tokenizer)
        return model

    def take_tokenizer(self, tokenizer: BertTokenizer) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = tokenizer.vocabulary
        self.tokenizer_settings = tokenizer.settings()

    @property
    def num_parts(self) -> int | None:
        """K of packed rows; None of plain ones."""
        return self.course.num_parts if self.packed else None

    def batches(self, stage: Stage, batch_size: int | None = None, **which) -> "tf.data.Dataset":
        """The batches of a stage; `which` are further arguments of `pretraining_dataset`.

        The first phase has the seed of the run, each later one the next seed: other pairs, masks and order.
        """
        rows, masking = self.rows, self.rows.masking
        entity_ids = None if masking.names is None else known_names(read_names(masking.names), self.tokenizer)
        return pretraining_dataset(
            self.source,
            self.tokenizer,
            batch_size=batch_size or stage.batch_size,
            sequence_length=stage.sequence_length,
            max_predictions=stage.max_predictions,
            seed=self.seed + stage.phase,
            held_out=self._held_out_rows(),
            next_sentence=rows.next_sentence,
            random_next_rate=rows.random_next_rate,
            left_to_right=rows.left_to_right,
            mask_rate=rows.mask_rate,
            mask_token_rate=masking.mask_token_rate,
            keep_rate=masking.keep_rate,
            random_token_rate=masking.random_token_rate,
            whole_word=rows.whole_word,
            entity_ids=entity_ids,
            dupe_factor=masking.dupe_factor,
            packed=self.packed,
            num_parts=self.num_parts,
            fill_rows=rows.fill_rows,
            **which,
        )

    def _held_out_rows(self):
        return None if isinstance(self.source, Records) else self.held_out

    def from_step(self, start_step: int, stage: int) -> "tf.data.Dataset":
        """The batches from a step on, which is in the stage of this number, as `train` asks for them."""
        stages = self.course.stages
        row = first_row(stages, self.course.starts[: stage + 1], start_step)
        return self.batches(stages[stage], start_row=row)

    def evaluations(self) -> dict:
        """The held-out batches of every phase, at its own length: number of the phase → dataset.

        Where an update is computed in parts, so are these: the same rows, in more batches.
        """
        batches = self.rows.evaluation_batches * self.parts
        return {
            stage.phase: self.batches(stage, stage.batch_size // self.parts, evaluation=True, batches=batches)
            for stage in plan_stages(self.course.phases)
        }

    def count_sequences(self) -> dict:
        """For a dry run: `sequences_per_epoch` of the first phase; `sequences_are_all`, whether there was time."""
        sequences, complete = count_sequences(self.batches(self.course.stages[0], epochs=1))
        return {"sequences_per_epoch": sequences, "sequences_are_all": complete}

    def describe(self, evaluation: "tf.data.Dataset") -> DataReport:
        """Logs and returns what is known of the data before the training."""
        statistics = []
        for stage in {stage.phase: stage for stage in self.course.stages}.values():
            batches = self.batches(stage)
            statistics.append(dataset_statistics(batches, self.tokenizer, _STATISTICS_BATCHES, self.rows.left_to_right))
            _LOGGER.info("%s", format_report(statistics[-1]))
        warn_of_unknown(statistics[0]["unknown_fraction"], "the corpus")
        counts = token_counts(self.source, self.tokenizer, BASELINE_TOKENS, held_out=self._held_out_rows())
        unigram = unigram_baseline(counts, evaluation)
        _LOGGER.info(
            "token frequencies alone: loss %.3f, masked-LM accuracy %.1f%%",
            unigram["cross_entropy"],
            100 * unigram["accuracy"],
        )
        if self.rows.next_sentence:
            labels = next_sentence_labels(evaluation)
            unigram["nsp_accuracy"] = float(labels.max() / labels.sum())
            fraction = 100 * unigram["nsp_accuracy"]
            _LOGGER.info("always the more frequent label: next-sentence accuracy %.1f%%", fraction)
        real = [1 - phase["padding_fraction"] for phase in statistics]
        metrics = {"unigram": unigram, "data": statistics[0] if len(statistics) == 1 else statistics}
        return DataReport(real, metrics, self._corpus_tokens(counts))

    def _corpus_tokens(self, counts):
        """Tokens of an epoch: of records as they were counted, of TFRecords if all of them were."""
        if isinstance(self.source, Records):
            return sum(shard["tokens"] for shard in self.source.training)
        total = int(counts.sum())
        return total if total < BASELINE_TOKENS else None

    def baseline(self, metrics: Mapping) -> dict:
        """What token frequencies, and always the more frequent label, reach, as curves: names as in the logs."""
        unigram = metrics["unigram"]
        loss = unigram["cross_entropy"]
        curves = {"mlm_loss": loss, "mlm_cross_entropy": loss, "mlm_perplexity": float(np.exp(loss))}
        curves |= {"mlm_accuracy": unigram["accuracy"], "loss": loss}
        if (fraction := unigram.get("nsp_accuracy")) is not None:
            entropy = -sum(p * math.log(p) for p in (fraction, 1 - fraction) if p)
            curves |= {"nsp_accuracy": fraction, "nsp_loss": entropy, "loss": loss + entropy}
        return curves

    def save(
        self,
        model: "BertPretrainer",
        settings: "ModelSettings",
        path: str | os.PathLike,
        made_by: dict[str, Any] | None,
    ) -> None:
        """Writes the model of the run."""
        save_pretrained(model, path, tokenizer=self.tokenizer, settings=settings, made_by=made_by, overwrite=True)

    def choose_packing(self) -> bool:
        """Decides whether rows are packed, if nothing was given: where they hold a twentieth more text.

        By the first pool alone, so that a run that is resumed decides the same. Rows that are to be filled are packed,
        those of TFRecords not.
        """
        if self.packed is None:
            is_open = isinstance(self.source, Records)
            self.packed = is_open and (self.rows.fill_rows or packing_pays(self.source, self))
        return self.packed


def packing_pays(records: Records, data: CorpusData) -> bool:
    """Whether packed rows are fewer rows, by a twentieth."""
    plain = packed = total = 0.0
    pool = records.index(0)
    rows = data.rows
    for phase in data.course.phases:
        if rows.left_to_right:
            masking = NextTokens(data.tokenizer, phase.max_predictions)
        else:
            masking = TokenMasking(data.tokenizer, phase.max_predictions, rows.mask_rate)
        sampler = RowSampler(
            masking=masking,
            seed=data.seed,
            sequence_length=phase.sequence_length,
            next_sentence=rows.next_sentence,
            random_next_rate=rows.random_next_rate,
        )
        tokens = phase.fraction * phase.batch_size * phase.sequence_length
        plain += tokens * sampler.real_fraction(pool)
        packed += tokens * dataclasses.replace(sampler, num_parts=data.course.num_parts).real_fraction(pool)
        total += tokens
    pays = packed >= _LEAST_GAIN * plain > 0
    _LOGGER.info(
        "%s rows: %.1f%% of a plain row is text, %.1f%% of a packed one",
        "packed" if pays else "plain",
        100 * plain / total,
        100 * packed / total,
    )
    return pays
