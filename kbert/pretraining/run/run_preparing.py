"""What `prepare_records` and `write_batches` do."""

import itertools
import logging
import os
import pathlib
from typing import TYPE_CHECKING, Any

import numpy as np

from kbert.checks import check_integers
from kbert.corpus.corpus_files import find_files
from kbert.corpus.documents import iterate_documents
from kbert.corpus.held_out import check_held_out
from kbert.corpus.records import Records
from kbert.corpus.write_records import SHARED, checked_division, write_records
from kbert.corpus.write_records_with_beam import write_records_with_beam
from kbert.errors import reading_errors
from kbert.files import check_directory_is_free, sha256, to_json, write_directory
from kbert.locks import locked_output
from kbert.options import PathLike
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.dataset_statistics import dataset_statistics
from kbert.pretraining.run.corpus_data import CorpusData
from kbert.pretraining.run.pretrain import pretrain
from kbert.pretraining.run.pretraining_settings import PretrainingSettings
from kbert.pretraining.run.stored_batches import FORMAT, MANIFEST, VOCABULARY
from kbert.text.tokenizer import BertTokenizer, warn_of_unknown
from kbert.text.vocabulary import write_vocabulary
from kbert.training.run_directory import open_run
from kbert.weights.source import local_source, open_checkpoint

if TYPE_CHECKING:
    from kbert.options import Arguments


_LOGGER = logging.getLogger("kbert")
_FILES = (MANIFEST, VOCABULARY, "train-*.npz", "evaluation-*.npz")
_OF_PRETRAIN = ("steps", "batch_size", "sequence_length", "masking", "objective", "rows", "seed")
_PARTS = ("inputs", "labels", "weights")


def run_prepare_records(asked: "Arguments") -> dict[str, Any]:
    """`prepare_records`."""
    if asked.runner is None and (asked.beam_flags or asked.shared):
        raise ValueError("prepare_records: `shared` and `beam_flags` need `runner`. Received: no runner")
    division = checked_division("prepare_records", asked.shard_tokens, asked.shuffle_shards, asked.held_out, asked.seed)
    output = pathlib.Path(asked.output)
    files = find_files(asked.corpus, output=output)
    reading = {"format": asked.format, "language": asked.language}
    settings = {
        "corpus": [os.fspath(file) for file in files],
        "vocabulary": os.fspath(asked.vocabulary),
        "lowercase": asked.lowercase,
        **reading,
        **check_integers("prepare_records", 5, sequence_length=asked.sequence_length),
        **division,
    }
    tokenizer = _tokenizer(asked.vocabulary, asked.lowercase)
    next(iterate_documents(files, **reading))  # after an empty corpus no files remain
    if asked.held_out:  # which pre-training, but no other reader of records needs
        check_held_out(iterate_documents(files, **reading), asked.held_out)
    inputs = {"corpus": files, "vocabulary": local_source(asked.vocabulary) or asked.vocabulary}
    run = open_run(output, settings, asked.overwrite, inputs=inputs, recipe="kbert records")
    try:
        files_read = [[path, os.path.getsize(path)] for path in files]
        options = {**division, "settings": {"corpus": files_read, **reading}}
        if asked.runner is None:
            records = write_records(iterate_documents(files, **reading), tokenizer, output, **options)
        else:
            records = write_records_with_beam(
                files,
                tokenizer,
                output,
                runner=asked.runner,
                beam_flags=list(asked.beam_flags),
                shared=asked.shared,
                **reading,
                **options,
            )
    except Exception:  # a corpus that cannot be read leaves nothing but what it can resume from
        if not any(output.glob("train-*")) and not any(output.glob(f"{SHARED}/*/file-*.documents")):
            run.discard()
        raise
    metrics = {**records.manifest["counts"], "shards": len(records.training), "held_out_shards": len(records.held_out)}
    dataset = pretraining_dataset(output, tokenizer, batch_size=32, sequence_length=asked.sequence_length)
    metrics["data"] = dataset_statistics(dataset, tokenizer)
    warn_of_unknown(metrics["data"]["unknown_fraction"], "the corpus")
    run.finish(metrics)
    return metrics | {"sequence_length": asked.sequence_length}


def _tokenizer(vocabulary: PathLike, lowercase: bool) -> BertTokenizer:
    """That of a file, or of a model, with all of its settings."""
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


def run_write_batches(asked: "Arguments") -> dict[str, Any]:
    """`write_batches`: the batches of `kbert.pretrain` with these arguments."""
    check_directory_is_free(asked.output, _FILES, asked.overwrite)
    with locked_output(asked.output):
        return _write_batches(asked)


def _write_batches(asked):
    records = Records(asked.records)
    options = {name: value for name, value in vars(asked).items() if name in _OF_PRETRAIN}
    settings = PretrainingSettings(pretrain.arguments(asked.records, **options), records.directory)
    if settings.left_to_right:
        raise ValueError(
            "write_batches: expected masked tokens, as only bidirectional models are trained on batches. "
            "Received: left_to_right=True. Train such a model on the records themselves"
        )
    data = CorpusData(settings)
    data.take_tokenizer(records.tokenizer())
    data.choose_packing()
    settings = data.settings
    [stage] = settings.stages()
    training = data.batches(stage, batches=asked.steps)
    evaluation = data.batches(stage, evaluation=True, batches=settings.evaluation_batches)
    manifest = {
        "format": FORMAT,
        "steps": asked.steps,
        "batch_size": asked.batch_size,
        "sequence_length": asked.sequence_length,
        "seed": asked.seed,
        **asked.masking.to_json(),
        **asked.objective.to_json(),
        "fill_rows": asked.rows.fill_rows,
        "max_predictions": stage.max_predictions,
        "packed": settings.packed,
        "num_parts": settings.num_parts if settings.packed else None,
        "vocabulary_size": data.tokenizer.vocabulary_size,
        "tokenizer": data.tokenizer_settings,
        "records_sha256": records.manifest["sha256"],
        "arrays": {
            name: {"shape": list(spec.shape), "dtype": spec.dtype.name}
            for name, spec in _flat(training.element_spec).items()
        },
    }

    def write(partial):
        manifest["files"] = []
        for kind, dataset in (("train", training), ("evaluation", evaluation)):
            with reading_errors():
                _write_files(partial, kind, dataset.as_numpy_iterator(), asked.batches_per_file, manifest["files"])
        write_vocabulary(partial / VOCABULARY, data.vocabulary)
        (partial / MANIFEST).write_text(to_json(manifest), encoding="utf-8")
        check_directory_is_free(asked.output, _FILES, asked.overwrite)  # another program may have written there

    write_directory(asked.output, write)
    return manifest


def _write_files(directory, kind, batches, batches_per_file, files):
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
    for dtype in ("uint8", "uint16"):
        small = values.astype(dtype) if values.dtype.kind in "if" and values.min() >= 0 else values
        if np.array_equal(small, values):
            return small
    return values
