"""What is made of a corpus before a pre-training: records, with their statistics; batches as files."""

import itertools
import logging
import os
import pathlib

import numpy as np

from kbert.checks import check_integers
from kbert.config import default_num_parts
from kbert.corpus.corpus_files import find_files
from kbert.corpus.documents import iterate_documents
from kbert.corpus.reading_errors import reading_errors
from kbert.corpus.records import Records
from kbert.corpus.write_records import SHARED, checked_division, write_records
from kbert.corpus.write_records_with_beam import write_records_with_beam
from kbert.files import check_directory_is_free, sha256, to_json, write_directory
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.dataset_statistics import dataset_statistics
from kbert.pretraining.real_fractions import packing_pays
from kbert.pretraining.run.phases import default_max_predictions
from kbert.pretraining.run.stored_batches import FORMAT, MANIFEST, VOCABULARY
from kbert.pretraining.sources import TextSource, check_held_out
from kbert.text.tokenizer import BertTokenizer
from kbert.text.vocabulary import write_vocabulary
from kbert.training.run_directory import open_run

_LOGGER = logging.getLogger("kbert")
_FILES = (MANIFEST, VOCABULARY, "train-*.npz", "evaluation-*.npz")
_PARTS = ("inputs", "labels", "weights")


def prepare_records(
    corpus,
    vocabulary,
    output,
    *,
    lowercase=True,
    format="auto",
    language="en",
    held_out=0.01,
    shard_tokens=1 << 20,
    shuffle_shards=16,
    sequence_length=128,
    seed=0,
    overwrite=False,
    runner=None,
    beam_flags=(),
    shared=None,
) -> dict:
    """Tokenises a corpus once and writes it as records; after a kill the same call resumes.

    Args:
        corpus: path(s) or glob pattern(s) of text.
        lowercase: bool; False for cased text.
        format, language: of the corpus, as `kbert.corpus.read_documents` takes them.
        held_out, shard_tokens, shuffle_shards: see `write_records`.
        sequence_length: int, of the report.
        seed: int, of the order of the documents.
        runner: None: this process; otherwise an Apache Beam runner, which tokenises the files on its workers: see
            `kbert.corpus.write_records_with_beam`, also for the same records.
        beam_flags, shared: with a runner, its flags, and a directory that its workers share.

    Returns:
        dict: the counts of documents, sentences, tokens and shards, and `pipeline`, the `dataset_statistics` of the
        training batches.
    """
    division = checked_division("prepare_records", shard_tokens, shuffle_shards, held_out, seed)
    output, files = pathlib.Path(output), find_files(corpus)
    settings = {
        "corpus": [os.fspath(file) for file in files],
        "vocabulary": os.fspath(vocabulary),
        "lowercase": lowercase,
        "format": format,
        "language": language,
        **check_integers("prepare_records", 5, sequence_length=sequence_length),
        **division,
    }
    tokenizer = BertTokenizer(vocabulary, lowercase=lowercase)
    next(iterate_documents(files, format, language))  # after an empty corpus no files remain
    if held_out:  # which pre-training, but no other reader of records needs
        check_held_out(TextSource(files, format, language), held_out)
    inputs = {"corpus": files, "vocabulary": pathlib.Path(vocabulary)}
    run = open_run(output, settings, overwrite, inputs=inputs, recipe="kbert records")
    try:
        source = {"format": format, "language": language}
        files_read = [[path, os.path.getsize(path)] for path in files]
        options = {**division, "settings": {"corpus": files_read, **source}}
        if runner is None:
            records = write_records(iterate_documents(files, **source), tokenizer, output, **options)
        else:
            beam = {"runner": runner, "beam_flags": beam_flags, "shared": shared}
            records = write_records_with_beam(files, tokenizer, output, **beam, **source, **options)
    except Exception:  # a corpus that cannot be read leaves nothing but what it can resume from
        if not any(output.glob("train-*")) and not any(output.glob(f"{SHARED}/*/file-*.documents")):
            run.discard()
        raise
    metrics = {**records.manifest["counts"], "shards": len(records.training), "held_out_shards": len(records.held_out)}
    dataset = pretraining_dataset(output, tokenizer, batch_size=32, sequence_length=sequence_length)
    metrics["data"] = dataset_statistics(dataset, tokenizer)
    run.finish(metrics)
    return metrics


def write_batches(
    records,
    directory,
    *,
    steps,
    batch_size=32,
    sequence_length=128,
    max_predictions=None,
    seed=0,
    packed=None,
    fill_rows=False,
    evaluation_batches=50,
    batches_per_file=100,
    overwrite=False,
    **options,
) -> dict:
    """Writes the first batches of `pretraining_dataset`, exactly as `kbert.pretrain` with these settings sees them.

    A machine with JAX alone trains on them (`kbert.pretrain`): nothing is left to do there but to read arrays. A
    batch of 256 rows of 128 tokens takes 0.15 MB.

    Args:
        records: a directory of records.
        directory: a new or empty directory, which appears when it is complete.
        steps: int, batches.
        batch_size, sequence_length, max_predictions, seed, packed, fill_rows: see `kbert.pretrain`.
        evaluation_batches: int, of the held-out documents.
        overwrite: bool, replace another directory of batches.
        **options: further arguments of `pretraining_dataset`: next_sentence, whole_word, mask_rate ...

    Returns:
        dict: the manifest.
    """
    if options.get("left_to_right"):
        raise ValueError(
            "write_batches: expected masked tokens, as only bidirectional models are trained on batches. "
            "Received: left_to_right=True. Train such a model on the records themselves"
        )
    for name, value in (("steps", steps), ("batches_per_file", batches_per_file)):
        if value < 1:
            raise ValueError(f"write_batches: `{name}` must be at least 1. Received: {value!r}")
    check_directory_is_free(directory, _FILES, overwrite)
    opened = Records(records)
    tokenizer = opened.tokenizer()
    max_predictions = max_predictions or default_max_predictions(sequence_length, options.get("mask_rate", 0.15))
    num_parts = default_num_parts(sequence_length)
    if packed is None and fill_rows:
        packed = True
    elif packed is None:
        phase = (sequence_length, 1.0, batch_size, max_predictions)
        names = ("next_sentence", "random_next_rate", "mask_rate")  # what decides how long pairs are, and their masks
        objective = {name: options[name] for name in names if name in options}
        packed = packing_pays(records, tokenizer, [phase], num_parts=num_parts, seed=seed, **objective)
    settings = {"batch_size": batch_size, "sequence_length": sequence_length, "max_predictions": max_predictions}
    settings |= {"seed": seed, "packed": packed, "num_parts": num_parts if packed else None, "fill_rows": fill_rows}
    settings |= options
    training = pretraining_dataset(records, tokenizer, batches=steps, **settings)
    evaluation = pretraining_dataset(records, tokenizer, evaluation=True, batches=evaluation_batches, **settings)
    manifest = {
        "format": FORMAT,
        **settings,
        "steps": steps,
        "vocabulary_size": tokenizer.vocabulary_size,
        "tokenizer": tokenizer.settings(),
        "records_sha256": opened.manifest["sha256"],
        "arrays": {
            name: {"shape": list(spec.shape), "dtype": spec.dtype.name}
            for name, spec in _flat(training.element_spec).items()
        },
    }

    def write(partial):
        manifest["files"] = []
        for kind, dataset in (("train", training), ("evaluation", evaluation)):
            with reading_errors():
                _write_files(partial, kind, dataset.as_numpy_iterator(), batches_per_file, manifest["files"])
        write_vocabulary(partial / VOCABULARY, tokenizer.vocabulary)
        (partial / MANIFEST).write_text(to_json(manifest), encoding="utf-8")

    write_directory(directory, write)
    return manifest


def _write_files(directory, kind, batches, batches_per_file, files):
    for number in itertools.count():
        some = [_flat(batch) for batch in itertools.islice(batches, batches_per_file)]
        if not some:
            return
        path = pathlib.Path(directory) / f"{kind}-{number:05d}.npz"
        np.savez(path, **{name: _small(np.stack([batch[name] for batch in some])) for name in some[0]})
        files.append(
            {
                "name": path.name,
                "kind": kind,
                "batches": len(some),
                "bytes": path.stat().st_size,
                "sha256": sha256(path),
            }
        )
        _LOGGER.info("%s: %s batches", path.name, len(some))


def _flat(batch):
    return {
        f"{part}/{name}": value for part, columns in zip(_PARTS, batch, strict=True) for name, value in columns.items()
    }


def _small(values):
    """Token ids and positions in two bytes where they fit; weights of 0 and 1 in one."""
    for dtype in ("uint8", "uint16"):
        small = values.astype(dtype) if values.dtype.kind in "if" and values.min() >= 0 else values
        if np.array_equal(small, values):
            return small
    return values
