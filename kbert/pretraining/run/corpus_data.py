"""What a pre-training on records or TFRecords reads, and what is said about it before the training starts."""

import dataclasses
import logging
import os
from typing import TYPE_CHECKING, Any

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
from kbert.pretraining.run.course import Course
from kbert.pretraining.run.options import RANDOM_NEXT_RATE, Masking
from kbert.pretraining.run.source import DataReport
from kbert.pretraining.run.starting_model import Start, given_model, loaded_model, make_new_model, source_tokenizer
from kbert.pretraining.tfrecords import check_tfrecords
from kbert.text.tokenizer import warn_of_unknown
from kbert.training.dry_run import count_sequences

if TYPE_CHECKING:
    import tensorflow as tf

    from kbert.models.pretrainer import BertPretrainer
    from kbert.training.hardware import Hardware


_LOGGER = logging.getLogger("kbert")
_STATISTICS_BATCHES = 20
_BEGINNING = 1 << 23  # characters of text that a dry run reads
_LEAST_GAIN = 1.05  # times as many real tokens in a row: what attention within parts costs, and a little more


@dataclasses.dataclass(kw_only=True)
class CorpusData:
    """A corpus as a run learns from it; `stored_batches.StoredBatches` is the same for batches.

    Records are opened once. Text is written to records by `write_records`, which needs the tokenizer of the model.

    Args:
        source: directory of records, paths of TFRecords, or text (`kbert.pretraining.run.source.corpus_source`).
        course: `Course`.
        verb: name of the function that was called, for errors.
        seed, mask_rate and the others: see `kbert.pretrain`.

    Attributes:
        packed: bool, or None until `choose_packing` has decided.
        tokenizer: `kbert.BertTokenizer`, once there is a model.
    """

    source: Any
    course: Course
    seed: int
    mask_rate: float
    whole_word: bool
    masking: Masking
    next_sentence: bool
    random_next_rate: float
    left_to_right: bool = False
    packed: bool | None
    fill_rows: bool
    held_out: float | None = None
    verb: str = "pretrain"

    def __post_init__(self):
        self._check_options()
        if isinstance(self.source, Records) or is_records(self.source):
            if self.held_out is not None:
                raise ValueError(
                    f"{self.verb}: records have held-out documents of their own (`held_out` of "
                    f"kbert.corpus.write_records). Received: held_out={self.held_out}"
                )
            self._open(self.source)
            return
        self.held_out = HELD_OUT if self.held_out is None else self.held_out
        if is_tfrecords(self.source):
            check_tfrecords(self.source, self.held_out)

    def _check_options(self):
        masking = self.masking
        others = Masking(max_predictions=masking.max_predictions, dupe_factor=masking.dupe_factor)
        if self.left_to_right and (self.whole_word or masking != others):
            raise ValueError(
                f"{self.verb}: `left_to_right` predicts every token and masks none. "
                f"Received: whole_word={self.whole_word} and {masking} as well"
            )
        if self.random_next_rate != RANDOM_NEXT_RATE and not self.next_sentence:
            raise ValueError(
                f"{self.verb}: `random_next_rate` is for next sentence prediction. "
                f"Received: {self.random_next_rate} and next_sentence=False"
            )
        if self.fill_rows and self.packed is False:
            raise ValueError(f"{self.verb}: `fill_rows` is for packed rows. Received: packed=False as well")

    def _open(self, records):
        self.source = records if isinstance(records, Records) else Records(records)
        self.held_out = None  # records have held-out documents of their own
        for evaluation in (True, False):
            check_shards(self.source, evaluation)

    def write_records(
        self, directory: str | os.PathLike, hardware: "Hardware | None", output: str | os.PathLike | None, dry_run: bool
    ) -> None:
        """Writes text to records; of several workers with an `output` the first does, and the others wait."""
        text = self.source if isinstance(self.source, DocumentList) else find_files(self.source, output=output)
        characters = _BEGINNING if dry_run else None
        if output is None or hardware.is_chief:
            try:
                write_text_records(text, self.tokenizer, directory, held_out=self.held_out, characters=characters)
            except Exception as error:
                if output is not None:
                    hardware.wait_for_all(str(error) or repr(error))  # so that the others end, too
                raise
        if output is not None:
            hardware.wait_for_all()
        self._open(directory)

    def starting_model(self, start: Start, hardware: "Hardware") -> "BertPretrainer":
        """The model that the run starts from; one that is given is returned itself."""
        records = self.source if isinstance(self.source, Records) else None
        task = "pretraining" if self.next_sentence else "masked_lm"
        length = self.course.sequence_length
        if start.is_loaded:
            model, self.tokenizer = loaded_model(start, task, length, hardware, records)
        elif start.is_given:
            model, self.tokenizer = given_model(start, task, length, records)
        else:
            self.tokenizer = source_tokenizer(start, records)
            with hardware.scope():
                model = make_new_model(
                    start,
                    self.vocabulary,
                    next_sentence=self.next_sentence,
                    left_to_right=self.left_to_right,
                    sequence_length=length,
                )
        return model

    @property
    def vocabulary(self) -> list[str]:
        """The tokens of the tokenizer."""
        return self.tokenizer.vocabulary

    @property
    def tokenizer_settings(self) -> dict[str, Any]:
        """The settings of the tokenizer."""
        return self.tokenizer.settings()

    @property
    def num_parts(self) -> int | None:
        """K of packed rows; None for plain ones."""
        return self.course.num_parts if self.packed else None

    def batches(self, phase: int, batch_size: int | None = None, **which: Any) -> "tf.data.Dataset":
        """The batches of the phase with this number; `which` are further arguments of `pretraining_dataset`.

        The first phase has the seed of the run, each later one the next seed: other pairs, masks and order.
        """
        shape, masking = self.course.phases[phase], self.masking
        return pretraining_dataset(
            self.source,
            self.tokenizer,
            batch_size=batch_size or shape.batch_size,
            sequence_length=shape.sequence_length,
            max_predictions=shape.max_predictions,
            seed=self.seed + phase,
            held_out=self.held_out,
            next_sentence=self.next_sentence,
            random_next_rate=self.random_next_rate,
            left_to_right=self.left_to_right,
            mask_rate=self.mask_rate,
            mask_token_rate=masking.mask_token_rate,
            keep_rate=masking.keep_rate,
            random_token_rate=masking.random_token_rate,
            whole_word=self.whole_word,
            entity_ids=None if masking.names is None else known_names(read_names(masking.names), self.tokenizer),
            dupe_factor=masking.dupe_factor,
            packed=self.packed,
            num_parts=self.num_parts,
            fill_rows=self.fill_rows,
            **which,
        )

    def from_step(self, phase: int, start_step: int) -> "tf.data.Dataset":
        """The batches from a step of the run on, which is in this phase, as `train` asks for them."""
        return self.batches(phase, start_step=start_step - [0, *self.course.ends][phase])

    def evaluations(self, batches: int, parts: int = 1) -> list:
        """The held-out batches of every phase, at its own length.

        Where an update is computed in parts, so are these: the same rows, in more batches.
        """
        return [
            self.batches(number, phase.batch_size // parts, evaluation=True, batches=batches * parts)
            for number, phase in enumerate(self.course.phases)
        ]

    def count_sequences(self) -> dict:
        """For a dry run: `sequences_per_epoch` of the first phase; `sequences_are_all`, whether there was time."""
        sequences, complete = count_sequences(self.batches(0, epochs=1))
        return {"sequences_per_epoch": sequences, "sequences_are_all": complete}

    def describe(self, evaluation: "tf.data.Dataset") -> DataReport:
        """Logs and returns what is known of the data before the training."""
        statistics = []
        for number in range(len(self.course.phases)):
            batches = self.batches(number)
            statistics.append(dataset_statistics(batches, self.tokenizer, _STATISTICS_BATCHES, self.left_to_right))
            _LOGGER.info("%s", format_report(statistics[-1]))
        warn_of_unknown(statistics[0]["unknown_fraction"], "the corpus")
        counts = token_counts(self.source, self.tokenizer, BASELINE_TOKENS, held_out=self.held_out)
        unigram = unigram_baseline(counts, evaluation)
        _LOGGER.info(
            "token frequencies alone: loss %.3f, masked-LM accuracy %.1f%%",
            unigram["cross_entropy"],
            100 * unigram["accuracy"],
        )
        if self.next_sentence:
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

    def choose_packing(self, decided: bool | None = None) -> bool:
        """Decides whether rows are packed, if nothing was given: where they hold a twentieth more text.

        A resumed run has `decided`. Rows that are to be filled are packed, those of TFRecords not.
        """
        if self.packed is None and decided is None:
            is_open = isinstance(self.source, Records)
            decided = is_open and (self.fill_rows or packing_pays(self.source, self))
        self.packed = decided if self.packed is None else self.packed
        return self.packed


def packing_pays(records: Records, data: CorpusData) -> bool:
    """Whether packed rows are fewer rows, by a twentieth, in the first pool."""
    plain = packed = total = 0.0
    pool = records.index(0)
    for phase in data.course.phases:
        if data.left_to_right:
            masking = NextTokens(data.tokenizer, phase.max_predictions)
        else:
            masking = TokenMasking(data.tokenizer, phase.max_predictions, data.mask_rate)
        sampler = RowSampler(
            masking=masking,
            seed=data.seed,
            sequence_length=phase.sequence_length,
            next_sentence=data.next_sentence,
            random_next_rate=data.random_next_rate,
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
