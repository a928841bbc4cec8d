"""Prepares a corpus for pre-training: records, and stored batches."""

import itertools
import logging
import os
import pathlib
from typing import TYPE_CHECKING, Annotated, Any

from kbert.aliases import PathLike
from kbert.checks import Bounds
from kbert.config import MASK_RATE
from kbert.options import (
    NOT_RECORDED,
    CorpusFormat,
    Count,
    Fraction,
    FractionBelowOne,
    Natural,
    NonzeroFraction,
    ShardTokens,
    checked,
    record,
)
from kbert.pretraining.run.options import RANDOM_NEXT_RATE, Masking

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


_LOGGER = logging.getLogger("kbert")
_PARTS = ("inputs", "labels", "weights")


@checked
def prepare_records(
    corpus: list[PathLike] | PathLike,
    vocabulary: PathLike,
    output: Annotated[PathLike, NOT_RECORDED],
    *,
    lowercase: bool = True,
    format: CorpusFormat = "auto",
    language: str = "en",
    held_out: FractionBelowOne = 0.01,
    shard_tokens: ShardTokens = 1 << 20,
    shuffle_shards: Count = 16,
    sequence_length: Annotated[int, Bounds("[5, inf)")] = 128,
    seed: Natural = 0,
    runner: Annotated[str | None, NOT_RECORDED] = None,
    shared: Annotated[PathLike | None, NOT_RECORDED] = None,
    beam_flags: Annotated[list[str], NOT_RECORDED] = (),
    overwrite: Annotated[bool, NOT_RECORDED] = False,
) -> dict[str, Any]:
    """Tokenises a corpus once into records, which pre-training reads several times faster than text.

    `output` receives shards of token ids with their indexes, vocab.txt, manifest.json, and metrics.json with counts and
    statistics of the resulting pre-training examples. The documents are shuffled within groups of shards. A killed run
    resumes when the same command is given again. With `runner`, Apache Beam tokenises the files on several processes or
    machines and writes the same records; on the command line, what follows -- are Beam's own flags.

    Args:
        corpus: text files, plain or compressed, or tar or zip archives of them; put patterns in quotes.
        vocabulary: a vocab.txt; or a model, as for `kbert.load_pretrained`, whose tokenizer is used with all of its
            settings: for records on which that model is trained further.
        output: directory.
        lowercase: lower-case the text and strip accents; of a vocab.txt.
        format: of the corpus; auto: detected from the content of each file.
        language: of the corpus, for splitting prose into sentences.
        held_out: fraction of the documents that is used for evaluation only.
        shard_tokens: approximate number of tokens of a shard.
        shuffle_shards: number of shards whose documents are shuffled together, in memory.
        sequence_length: of the report.
        seed: determines the order of the documents.
        runner: an Apache Beam runner, such as DirectRunner.
        shared: with `runner`: a directory that all workers see.
        beam_flags: Beam's own flags, such as ``--direct_num_workers=4``.
        overwrite: delete another run in `output`.

    Returns:
        dict: the counts of documents, sentences, tokens and shards; ``data``, the
        `kbert.pretraining.dataset_statistics` of the training batches, and their ``sequence_length``.

    Example::

        kbert.pretraining.prepare_records("wiki/*.gz", "vocab.txt", "records")
    """
    settings = record(prepare_records, locals())
    from kbert.corpus.corpus_files import find_files
    from kbert.corpus.documents import iterate_documents
    from kbert.corpus.held_out import check_held_out
    from kbert.corpus.write_records import SHARED, write_records
    from kbert.corpus.write_records_with_beam import write_records_with_beam
    from kbert.pretraining.dataset import pretraining_dataset
    from kbert.pretraining.dataset_statistics import dataset_statistics
    from kbert.text.tokenizer import warn_of_unknown
    from kbert.training.run_directory import open_run

    if runner is None and (beam_flags or shared):
        raise ValueError("prepare_records: `shared` and `beam_flags` need `runner`. Received: no runner")
    division = {"shard_tokens": shard_tokens, "shuffle_shards": shuffle_shards, "held_out": held_out, "seed": seed}
    reading = {"format": format, "language": language}
    output = pathlib.Path(output)
    files = find_files(corpus, output=output)
    tokenizer = _tokenizer(vocabulary, lowercase)
    next(iterate_documents(files, **reading))  # after an empty corpus no files remain
    if held_out:  # which pre-training, but no other reader of records needs
        check_held_out(iterate_documents(files, **reading), held_out)

    settings["corpus"] = [os.fspath(file) for file in files]
    inputs = {"corpus": files, "vocabulary": vocabulary}
    run = open_run(output, settings, overwrite, inputs=inputs, recipe="kbert.pretraining.prepare_records")
    options = {**division, "settings": {"corpus": [[path, os.path.getsize(path)] for path in files], **reading}}
    try:
        if runner is None:
            records = write_records(iterate_documents(files, **reading), tokenizer, output, **options)
        else:
            beam = {"runner": runner, "beam_flags": list(beam_flags), "shared": shared}
            records = write_records_with_beam(files, tokenizer, output, **beam, **reading, **options)
    except Exception:  # a corpus that cannot be read leaves nothing but what it can resume from
        if not any(output.glob("train-*")) and not any(output.glob(f"{SHARED}/*/file-*.documents")):
            run.discard()
        raise

    metrics = {**records.manifest["counts"], "shards": len(records.training), "held_out_shards": len(records.held_out)}
    dataset = pretraining_dataset(records, tokenizer, batch_size=32, sequence_length=sequence_length)
    metrics["data"] = dataset_statistics(dataset, tokenizer)
    warn_of_unknown(metrics["data"]["unknown_fraction"], "the corpus")
    run.finish(metrics)
    return metrics | {"sequence_length": sequence_length}


def _tokenizer(vocabulary: PathLike, lowercase: bool) -> "BertTokenizer":
    """That of a file, or of a model, with all of its settings."""
    from kbert.text.tokenizer import BertTokenizer  # not above: they load TensorFlow
    from kbert.weights.source import open_checkpoint

    path = pathlib.Path(vocabulary)
    if path.is_file() or path.suffix == ".txt":
        return BertTokenizer(path, lowercase=lowercase)
    if not lowercase:
        raise ValueError(
            "prepare_records: `lowercase` goes with a `vocabulary` file: a model has a setting of its own. "
            f"Received: lowercase=False and {vocabulary}"
        )
    stored = open_checkpoint(vocabulary)
    if stored.vocabulary is None:
        raise ValueError(f"prepare_records: expected a model with its vocabulary. Received: {vocabulary} without one")
    return BertTokenizer(stored.vocabulary, **stored.settings.tokenizer)


@checked
def write_batches(
    records: Annotated[PathLike, NOT_RECORDED],
    output: Annotated[PathLike, NOT_RECORDED],
    *,
    steps: Count,
    batch_size: Count = 32,
    sequence_length: Count = 128,
    mask_rate: NonzeroFraction = MASK_RATE,
    whole_word: bool = False,
    next_sentence: bool = True,
    random_next_rate: Fraction = RANDOM_NEXT_RATE,
    packed: bool | None = None,
    fill_rows: bool = False,
    evaluation_batches: Count = 50,
    masking: Masking = Masking(),
    batches_per_file: Count = 100,
    seed: Natural = 0,
    overwrite: Annotated[bool, NOT_RECORDED] = False,
) -> dict[str, Any]:
    """Writes the batches of a pre-training as NumPy files, for GPU machines that have JAX but not TensorFlow.

    The batches are those on which ``kbert pretrain`` trains with the same settings, in the same order, with the pairs
    and masks of every epoch. `output` appears when it is complete; it holds the .npz files, their hashes in
    batches.json, and vocab.txt. ``kbert pretrain`` takes the directory in place of records. A batch of 256 rows of 128
    tokens takes 0.15 MB.

    Args:
        records: directory of ``kbert records``.
        output: a new directory.
        steps: number of batches, one for each weight update.
        batch_size: rows of a batch.
        sequence_length: tokens of a row.
        mask_rate, whole_word, next_sentence, random_next_rate, packed, fill_rows, evaluation_batches, masking: see
            `kbert.pretrain`.
        batches_per_file: batches in a file.
        seed: determines pairs, masks and their order.
        overwrite: replace the batches in `output`.

    Returns:
        The content of batches.json.

    Example::

        kbert.pretraining.write_batches("records", "batches", steps=10_000, whole_word=True)
    """
    settings = record(write_batches, locals())
    from kbert.corpus.records import Records
    from kbert.errors import reading_errors
    from kbert.files import check_directory_is_free, to_json, write_directory
    from kbert.locks import locked_output
    from kbert.pretraining.run.corpus_data import CorpusData
    from kbert.pretraining.run.course import Course, plan_phases
    from kbert.pretraining.run.stored_batches import FORMAT, MANIFEST, VOCABULARY
    from kbert.text.vocabulary import write_vocabulary

    names = (MANIFEST, VOCABULARY, "train-*.npz", "evaluation-*.npz")
    check_directory_is_free(output, names, overwrite)
    phases = plan_phases(None, batch_size, sequence_length, masking.max_predictions, mask_rate)
    with locked_output(output):
        data = CorpusData(
            verb="write_batches",
            source=Records(records),
            course=Course(phases, steps),
            seed=seed,
            mask_rate=mask_rate,
            whole_word=whole_word,
            masking=masking,
            next_sentence=next_sentence,
            random_next_rate=random_next_rate,
            packed=packed,
            fill_rows=fill_rows,
        )
        data.tokenizer = data.source.tokenizer()
        packed = data.choose_packing()
        training = data.batches(0, batches=steps)
        [evaluation] = data.evaluations(evaluation_batches)
        manifest = settings | {
            "format": FORMAT,
            "max_predictions": phases[0].max_predictions,
            "packed": packed,
            "num_parts": data.num_parts,
            "tokenizer": data.tokenizer_settings,
            "records_sha256": data.source.manifest["sha256"],
            "arrays": _describe_arrays(training.element_spec),
        }

        def write(partial):
            manifest["files"] = []
            for kind, dataset in (("train", training), ("evaluation", evaluation)):
                with reading_errors():
                    _write_files(partial, kind, dataset.as_numpy_iterator(), batches_per_file, manifest["files"])
            write_vocabulary(partial / VOCABULARY, data.vocabulary)
            (partial / MANIFEST).write_text(to_json(manifest), encoding="utf-8")
            check_directory_is_free(output, names, overwrite)  # another program may have written there

        write_directory(output, write)
    return manifest


def _describe_arrays(specs):
    return {name: {"shape": list(spec.shape), "dtype": spec.dtype.name} for name, spec in _flat(specs).items()}


def _write_files(directory, kind, batches, batches_per_file, files):
    import numpy as np  # not above: the command line does without

    from kbert.files import sha256

    for number in itertools.count():
        of_file = [_flat(batch) for batch in itertools.islice(batches, batches_per_file)]
        if not of_file:
            return
        path = pathlib.Path(directory) / f"{kind}-{number:05d}.npz"
        np.savez(path, **{name: _small(np.stack([batch[name] for batch in of_file])) for name in of_file[0]})
        size = path.stat().st_size
        files.append({"name": path.name, "kind": kind, "batches": len(of_file), "bytes": size, "sha256": sha256(path)})
        _LOGGER.info("%s: %s batches", path.name, len(of_file))


def _flat(batch):
    return {
        f"{part}/{name}": value for part, columns in zip(_PARTS, batch, strict=True) for name, value in columns.items()
    }


def _small(values):
    """Token ids and positions in two bytes where they fit; weights of 0 and 1 in one."""
    import numpy as np

    for dtype in ("uint8", "uint16"):
        small = values.astype(dtype) if values.dtype.kind in "if" and values.min() >= 0 else values
        if np.array_equal(small, values):
            return small
    return values
