"""A corpus → records for pre-training, with statistics of the batches they give."""

import os
import pathlib

from kbert.checks import check_integers
from kbert.corpus.corpus_files import find_files
from kbert.corpus.documents import iterate_documents
from kbert.corpus.records_writer import SHARED, checked_division
from kbert.corpus.write_records import write_records
from kbert.corpus.write_records_with_beam import write_records_with_beam
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.dataset_statistics import dataset_statistics
from kbert.pretraining.sources import check_held_out
from kbert.text.tokenizer import BertTokenizer
from kbert.training.run_directory import open_run


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

    Raises:
        ValueError: damaged or empty files, an invalid rate or size, a share that holds out none or all of the
            documents, inputs that changed since the run was started.
        FileExistsError: `output` holds finished records, a run with other settings, or other files.
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
        check_held_out(files, held_out, format, language)
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
