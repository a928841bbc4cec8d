"""`kbert.pretrain` on text: it is written to records first, which a resumed run reuses."""

import importlib
import json
import pathlib
import tempfile

import pytest
from helpers.at_step import Killed
from helpers.compare import assert_arrays_equal
from helpers.tiny_corpus import make_documents, make_tokenizer, write_lines

import kbert
from kbert.corpus import text_records
from kbert.corpus.records import Records
from kbert.corpus.records_manifest import signed
from kbert.files import read_json
from kbert.pretraining.run import corpus_data

pytestmark = pytest.mark.usefixtures("eagerly")
SHORT = {"steps": 2, "batch_size": 4, "sequence_length": 64, "evaluation_batches": 1}
write_records = importlib.import_module("kbert.corpus.write_records")


@pytest.fixture
def corpus(tmp_path):
    for n in range(2):
        write_lines(tmp_path / f"{n}.txt", make_documents(40, seed=n))
    return str(tmp_path / "**" / "*.txt")


def pretrain(corpus, **options):
    return kbert.pretrain(corpus, **{"vocabulary": make_tokenizer(), "held_out": 0.2} | SHORT | options)


def prepared(corpus, tmp_path):
    (tmp_path / "vocabulary").write_text("\n".join(make_tokenizer().vocabulary) + "\n")
    kbert.pretraining.prepare_records(
        corpus, tmp_path / "vocabulary", tmp_path / "prepared", held_out=0.2, sequence_length=64
    )
    return tmp_path / "prepared"


def test_a_run_is_that_of_the_records_that_kbert_records_writes(corpus, tmp_path):
    """In its output, whose own vocab.txt the pattern would find, and without one."""
    of_text = pretrain(corpus, output=tmp_path / "run")
    files = [tmp_path / f"{n}.txt" for n in range(2)]
    again = pretrain(files)
    of_records = kbert.pretrain(prepared(files, tmp_path), **SHORT)
    for run in (of_text, again):
        assert_arrays_equal(run.model.get_weights(), of_records.model.get_weights())
        assert run.metrics["unigram"] == of_records.metrics["unigram"]
    own, other = (Records(path).manifest for path in (tmp_path / "run" / "records", tmp_path / "prepared"))
    assert own["shards"] == other["shards"]
    assert set(read_json(tmp_path / "run" / "inputs.json")["inputs"]["corpus_or_records"]) == {
        str(tmp_path / f"{n}.txt") for n in range(2)
    }
    assert read_json(tmp_path / "run" / "settings.json")["packed"] is True


def test_nothing_is_left_of_temporary_records(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    pretrain(corpus)
    with pytest.raises(ValueError, match="held out"):
        pretrain(corpus, held_out=1e-9)
    assert not list((tmp_path / "temporary").iterdir())


def test_a_killed_run_resumes_the_writing_and_reuses_what_is_written(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(write_records, "POOL_SENTENCES", 20, raising=False)
    whole = pretrain(corpus)

    def dies(*arguments, **options):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(write_records.RecordsWriter, "write_manifest", dies)
        with pytest.raises(Killed):
            pretrain(corpus, output=tmp_path / "run")
    assert read_json(tmp_path / "run" / "settings.json")["packed"] is None
    with monkeypatch.context() as patch:
        patch.setattr("kbert.training.loop.train", dies)
        with pytest.raises(Killed):
            pretrain(corpus, output=tmp_path / "run")
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "records").iterdir()}
    run = pretrain(corpus, output=tmp_path / "run")
    assert written == {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "records").iterdir()}
    assert_arrays_equal(run.model.get_weights(), whole.model.get_weights())


def lacks_bytes(records):
    tokens = records / "train-00000.tokens"
    tokens.write_bytes(tokens.read_bytes()[:-2])


def has_another_token(records):
    tokens = records / "train-00000.tokens"
    content = tokens.read_bytes()
    tokens.write_bytes(content[2:4] + content[2:])


def has_no_manifest(records):  # nor has what is left after a kill while they are written again
    (records / "manifest.json").unlink()


def is_unfinished(records):
    lacks_bytes(records)
    manifest = read_json(records / "manifest.json")
    shards = manifest["shards"]
    done = {"documents_read": manifest["counts"]["documents"], "rounds": 1, "shards": shards}
    made_by = {name: manifest[name] for name in ("vocabulary", "tokenizer", "settings")}
    (records / "unfinished.json").write_text(json.dumps(signed({**made_by, "done": done})))


@pytest.mark.parametrize("damage", [lacks_bytes, has_another_token, has_no_manifest, is_unfinished])
def test_damaged_records_are_written_again_when_a_run_resumes(corpus, tmp_path, monkeypatch, caplog, damage):
    def dies(*arguments, **options):
        raise Killed

    monkeypatch.setattr("kbert.training.loop.train", dies)
    with pytest.raises(Killed):
        pretrain(corpus, output=tmp_path / "run")
    records = tmp_path / "run" / "records"
    whole = {path.name: path.read_bytes() for path in records.iterdir()}
    damage(records)
    with pytest.raises(Killed):
        pretrain(corpus, output=tmp_path / "run")
    assert "The records are deleted and written again." in caplog.text
    assert {path.name: path.read_bytes() for path in records.iterdir()} == whole


def test_a_dry_run_reads_only_the_beginning(corpus, monkeypatch):
    read = []
    iterate = text_records.iterate_documents

    def counted(*arguments):
        for document in iterate(*arguments):
            read.append(document)
            yield document

    monkeypatch.setattr(text_records, "iterate_documents", counted)
    monkeypatch.setattr(corpus_data, "_BEGINNING", 1)
    pretrain(corpus, dry_run=True)
    assert 2 <= len(read) < 80


def test_bad_text_leaves_nothing(tmp_path):
    write_lines(tmp_path / "a.txt", make_documents(800))  # more than is looked at when files are found
    with open(tmp_path / "a.txt", "ab") as file:
        file.write(b"\xff\xfe" * 100_000)
    with pytest.raises(ValueError, match="a.txt: expected text in UTF-8"):
        pretrain(tmp_path / "a.txt", output=tmp_path / "run")
    write_lines(tmp_path / "empty.txt", [["\u200b" * n] for n in range(1, 41)])
    with pytest.raises(ValueError, match="no document with a token"):
        pretrain(tmp_path / "empty.txt", output=tmp_path / "run")
    with pytest.raises(ValueError, match="None of 4 documents is held out"):
        pretrain(make_documents(4), output=tmp_path / "run", held_out=1e-6)
    assert not pathlib.Path(tmp_path / "run").exists()
