"""Records by Apache Beam: the bytes of one process for any number of workers; errors are those of one process."""

import importlib

import numpy as np
import pytest
from helpers.tiny_corpus import make_documents, write_lines

from kbert.corpus.corpus_files import find_files
from kbert.corpus.documents import _log_once, iterate_documents
from kbert.corpus.pool import text_pools
from kbert.corpus.write_records import write_records
from kbert.corpus.write_records_with_beam import plan_rounds, write_records_with_beam
from kbert.errors import UnreadableInput

module = importlib.import_module("kbert.corpus.write_records_with_beam")  # its name means the function
pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("apache_beam")]
ARGUMENTS = {"shard_tokens": 20_000, "shuffle_shards": 3, "held_out": 0.1, "seed": 5}
TWO_PROCESSES = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Files of unequal sizes: a pool of 32,768 sentences spans some, and the largest spans some pools."""
    path = tmp_path_factory.mktemp("corpus")
    short = {"words": (1, 2), "sizes": (1, 40, 90)}
    for number, size in enumerate((300, 1, 1900, 20, 700)):
        write_lines(path / f"{number}.txt", make_documents(size, seed=number, **short))
    (path / "3b.txt").write_text("\n\n \n")  # no documents
    with open(path / "0.txt", "a") as file:
        file.write("\n\x00\n\n\x00\n\n")  # documents without tokens
    return find_files(str(path / "*.txt"))


@pytest.fixture(scope="module")
def whole(corpus, tokenizer, tmp_path_factory):
    """What one process writes."""
    path = tmp_path_factory.mktemp("whole") / "records"
    records = write_records(iterate_documents(corpus), tokenizer, path, **ARGUMENTS)
    assert len(records.training) > 10 and len(records.held_out) > 2
    return contents(path)


def run(corpus, tokenizer, directory, **arguments):
    return write_records_with_beam(corpus, tokenizer, directory, **{"runner": "DirectRunner", **ARGUMENTS, **arguments})


@pytest.mark.parametrize(
    "flags", [(), pytest.param(TWO_PROCESSES, marks=pytest.mark.slow)], ids=["one process", "two processes"]
)
def test_any_number_of_processes_writes_the_same_bytes(corpus, tokenizer, whole, tmp_path, caplog, flags):
    shared = tmp_path / "shared"
    _log_once.cache_clear()  # `whole` has told the formats
    records = run(corpus, tokenizer, tmp_path / "records", beam_flags=flags, shared=shared)
    records.check_hashes()
    assert contents(tmp_path / "records") == whole
    assert list(shared.iterdir()) == []
    assert f"{len(corpus):,} texts (" in caplog.text


def test_a_stopped_run_goes_on_from_complete_files_and_rounds(corpus, tokenizer, whole, tmp_path, monkeypatch):
    write_round, mark = module._write_round, tmp_path / "one round is done"

    def stop(job, element):
        if mark.exists():
            raise OSError("the machine is gone")
        mark.touch()
        return write_round(job, element)

    with monkeypatch.context() as stopped:
        stopped.setattr(module, "_write_round", stop)
        with pytest.raises(RuntimeError, match="DirectRunner: the pipeline failed: the machine is gone"):
            run(corpus, tokenizer, tmp_path / "records")
    assert not (tmp_path / "records/manifest.json").exists()
    assert len(list(tmp_path.glob("records/partial/*/round-*.json"))) == 1
    monkeypatch.setattr(module, "text_chunks", None)  # no file is tokenised again
    run(corpus, tokenizer, tmp_path / "records")
    assert contents(tmp_path / "records") == whole
    run(corpus, tokenizer, tmp_path / "records")  # complete: there is nothing to do
    assert contents(tmp_path / "records") == whole


def test_a_run_without_a_runner_is_not_taken_over(tokenizer, tmp_path):
    files = [str(write_lines(tmp_path / "a.txt", make_documents(20)))]
    state = tmp_path / "records/unfinished.json"
    writer = module.RecordsWriter(tmp_path / "records", tokenizer, settings=None, **ARGUMENTS)
    writer.done["rounds"] = 1
    writer.save_state()
    before = state.read_bytes()
    with pytest.raises(ValueError, match="was started without a runner"):
        run(files, tokenizer, tmp_path / "records")
    assert state.read_bytes() == before
    run(files, tokenizer, tmp_path / "records", overwrite=True).check_hashes()


@pytest.mark.parametrize(
    "texts, error, message",
    [
        ({"a": b"ab c .\n", "b": b"\x1f\x8b\x08broken"}, UnreadableInput, "b.txt.* damaged"),
        ({"a": b"\n", "b": b" \n"}, ValueError, r"contains no sentences. Read: 2 file\(s\), the first"),
        ({"a": b"\x00\n", "b": b""}, ValueError, "no document with a token"),
    ],
)
def test_errors_are_those_of_one_process(tokenizer, tmp_path, texts, error, message):
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_bytes(text)
    files = sorted(str(path) for path in tmp_path.glob("*.txt"))
    for write in (
        lambda: run(files, tokenizer, tmp_path / "r"),
        lambda: write_records(iterate_documents(files), tokenizer, tmp_path / "r2", **ARGUMENTS),
    ):
        with pytest.raises(error, match=message):
            write()


def test_errors_of_the_pipeline(corpus, tokenizer, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="Received: 'NoSuchRunner'.*DirectRunner"):
        run(corpus, tokenizer, tmp_path / "r", runner="NoSuchRunner")
    with pytest.raises(ValueError, match="`format` must be one of"):
        run(corpus, tokenizer, tmp_path / "r", format="pdf")
    monkeypatch.setattr(module.SharedDirectory, "read", lambda *arguments: b"another machine's")
    with pytest.raises(RuntimeError, match=r"Received: .*other/records-\w+, which the worker on .* --shared"):
        run(corpus, tokenizer, tmp_path / "s", shared=tmp_path / "other")


@pytest.mark.parametrize("seed, pool_sentences, round_tokens", [(1, 20, 300), (2, 7, 1), (3, 32_768, 50)])
def test_rounds_are_those_of_the_pools(tokenizer, monkeypatch, seed, pool_sentences, round_tokens):
    """The plan from numbers alone against the pools that one process gathers."""
    documents = make_documents(150, seed=seed)
    ends, gathered, tokens = [0], 0, {}
    for read, pool in text_pools(enumerate(documents), tokenizer, pool_sentences):
        sizes = [len(ids) for ids, _ in module.pool_documents(pool)]
        tokens |= dict(zip(pool.document_ids.tolist(), sizes, strict=True))
        gathered += sum(sizes)
        if gathered >= round_tokens or read == len(documents):
            ends.append(int(read))
            gathered = 0
    monkeypatch.setattr(module, "pool_is_full", lambda sentences, size: sentences >= pool_sentences)
    found = plan_rounds(
        [len(d) for d in documents],
        [sum(map(len, d)) for d in documents],
        [tokens[i] for i in range(len(documents))],
        round_tokens,
    )
    assert found == list(zip(ends, ends[1:], strict=False)) and np.all(np.diff(ends) > 0)
