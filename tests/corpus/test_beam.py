"""What stands around a pipeline of Apache Beam: shared files, errors of workers, what each process loads once."""

import importlib
import json
import sys
import threading

import pytest
from helpers.tiny_corpus import make_documents, make_tokenizer, write_lines

from kbert.corpus.beam import SharedDirectory, delete_shared, load_once, run_beam

module = importlib.import_module("kbert.corpus.write_records_with_beam")  # its name means the function


def test_files_of_a_worker_appear_whole(tmp_path):
    shared = SharedDirectory(tmp_path / "shared")
    shared.open()
    with pytest.raises(OSError, match="full"), shared.writing("a") as file:
        file.write(b"half")
        raise OSError("full")
    assert not shared.exists("a") and [path.name for path in (tmp_path / "shared").iterdir()] == ["probe"]
    shared.write("a", b"whole")
    assert shared.read("a") == b"whole" and shared.read_part("a", 33, 2) == b"ho"  # behind the hash
    (shared / "a").write_bytes((shared / "a").read_bytes().replace(b"w", b"W"))
    with pytest.raises(OSError, match=r"shared/a is damaged. Delete .*shared and start again"):
        shared.read("a")
    shared.delete()
    assert list(tmp_path.iterdir()) == []


def test_the_first_error_of_the_input_is_raised(tmp_path):
    shared = SharedDirectory(tmp_path)
    shared.open()
    shared.raise_reported(ValueError)
    for number in (7, 3):
        with shared.reporting(number):
            raise ValueError(f"file {number} is bad")
    assert shared.failed() and json.loads(shared.read("error-00000003")) == "file 3 is bad"
    with pytest.raises(ValueError, match="file 3 is bad"):
        shared.raise_reported(ValueError)
    with pytest.raises(OSError), shared.reporting(8):  # may pass: the runner tries again
        raise OSError("connection lost")
    shared.open()
    assert not shared.failed()


def test_a_worker_that_sees_another_directory(tmp_path):
    here, there = SharedDirectory(tmp_path), SharedDirectory(tmp_path)
    here.open()
    here.check()
    for other in (there, SharedDirectory(tmp_path / "nowhere")):
        with pytest.raises(
            RuntimeError, match=f"all workers share. Received: {other.path}, .* Give another as --shared"
        ):
            other.check()


def test_only_shared_directories_are_deleted(tmp_path):
    shared = SharedDirectory(tmp_path / "partial/job")
    shared.open()
    (tmp_path / "partial/mine").mkdir()
    delete_shared(tmp_path / "partial")
    assert [path.name for path in (tmp_path / "partial").iterdir()] == ["mine"]
    (tmp_path / "partial/mine").rmdir()
    delete_shared(tmp_path / "partial")
    delete_shared(tmp_path / "partial")  # which is not there
    assert list(tmp_path.iterdir()) == []


def test_each_process_loads_once():
    loads, threads = [], []

    def load():
        loads.append(1)
        return len(loads)

    for _ in range(8):
        threads.append(threading.Thread(target=load_once, args=("test_beam", load)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert load_once("test_beam", load) == 1 and len(loads) == 1
    assert load_once("another", lambda: 5) == 5
    assert load_once("test_beam", load) == 2  # only the last is kept


def test_without_beam_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(RuntimeError, match=r"pip install apache-beam"):
        run_beam("DirectRunner", [], None)


def test_a_file_counts_as_tokenised_when_all_of_it_is_there(tmp_path, monkeypatch):
    """A worker that is killed when the last file appears leaves none that lacks the others."""
    files, there = [str(write_lines(tmp_path / "a.txt", make_documents(20)))], []
    arguments = {"shard_tokens": 100, "shuffle_shards": 1, "held_out": 0.1, "seed": 0}
    job = module._Job(files, make_tokenizer(), "auto", "en", arguments, {"settings": {}})
    job.shared = module.SharedDirectory(tmp_path / "shared")
    job.shared.open()
    monkeypatch.setattr(job.shared, "write", lambda name, content: there.append((name, job.shared.exists(tokens))))
    tokens = "file-000000.tokens"
    module._tokenize_file(job, 0)
    assert there == [("file-000000.formats", True), ("file-000000.documents", True)]
