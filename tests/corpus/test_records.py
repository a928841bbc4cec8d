"""Records: what is written is what is read; a killed run ends with the same bytes; damage is named."""

import importlib
import json

import numpy as np
import pytest
import tensorflow as tf
from helpers.compare import assert_arrays_equal
from helpers.tiny_corpus import VOCABULARY, make_documents, make_tokenizer

from kbert.corpus.held_out import is_held_out
from kbert.corpus.pool import make_pool, text_pools
from kbert.corpus.records import Records
from kbert.corpus.records_manifest import is_records
from kbert.corpus.write_records import write_records
from kbert.text.tokenizer import BertTokenizer

module = importlib.import_module("kbert.corpus.write_records")  # its name means the function
ARGUMENTS = {"shard_tokens": 300, "shuffle_shards": 3, "held_out": 0.1}


@pytest.fixture(autouse=True)
def small_pools(monkeypatch):
    """Pools of 20 sentences, so that a small corpus takes several rounds."""
    monkeypatch.setattr(module, "text_pools", lambda documents, tokenizer: _text_pools(documents, tokenizer, 20))


_text_pools = module.text_pools


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def documents_of(records, held_out=False):
    """Documents as lists of lists of token ids."""
    documents = []
    for shard in range(len(records.held_out if held_out else records.training)):
        pool = records.pool(shard, held_out)
        sentences = tf.RaggedTensor.from_row_lengths(tf.cast(pool.token_ids, tf.int32), pool.sentence_lengths)
        documents += tf.RaggedTensor.from_row_splits(sentences, pool.document_splits).to_list()
    return documents


def test_every_document_is_there_once(tokenizer, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    documents = make_documents(120, seed=1)
    records = write_records(documents, tokenizer, tmp_path / "r", **ARGUMENTS)
    expected = {held: [] for held in (False, True)}
    for document in documents:
        expected[is_held_out(document, 0.1)].append(tokenizer(tf.constant(document)).to_list())
    for held in (False, True):
        found = documents_of(records, held)
        assert len(expected[held]) > 5 and sorted(found) == sorted(expected[held])
        assert found != expected[held]  # mixed
    assert len(records.training) > 4
    largest = max(sum(map(len, document)) for document in expected[False])
    sizes = [shard["tokens"] for shard in records.training]
    assert max(sizes) <= 300 + largest and 200 < np.mean(sizes) < 400
    counts = records.manifest["counts"]
    assert counts["documents"] == 120 and counts["sentences"] == sum(map(len, documents))
    logged = [record.getMessage() for record in caplog.records if record.name == "kbert"]
    assert f"{counts['tokens']:,} tokens, " in logged[-1] and logged[-1].endswith(" tokens/s")
    numbers = [records.pool(i).document_ids.numpy() for i in range(len(records.training))]
    numbers += [records.pool(i, True).document_ids.numpy() for i in range(len(records.held_out))]
    assert sorted(np.concatenate(numbers)) == list(range(120))
    records.check_hashes()


def test_index_has_no_tokens(tokenizer, tmp_path):
    records = write_records(make_documents(20), tokenizer, tmp_path / "r", **ARGUMENTS)
    pool, index = records.pool(0), records.index(0)
    assert index.token_ids.shape == (0,)
    assert_arrays_equal(pool[1:], index[1:])


@pytest.mark.slow  # test_every_document_is_there_once
def test_types(tokenizer, tmp_path):
    """Two bytes a token; four where the vocabulary needs them."""
    assert write_records([["a b"]], tokenizer, tmp_path / "2").pool(0).token_ids.dtype == tf.uint16
    large = BertTokenizer([*VOCABULARY, *(f"word{i}" for i in range(70_000))])
    records = write_records([["a", "word69999"]], large, tmp_path / "4", held_out=0.0)
    assert records.pool(0).token_ids.dtype == tf.int32
    assert records.pool(0).token_ids.numpy().tolist() == [VOCABULARY.index("a"), len(VOCABULARY) + 69_999]


def test_the_tokenizer_comes_with_them(tmp_path):
    tokenizer = BertTokenizer(VOCABULARY, lowercase=False, max_word_length=50)
    records = write_records([["a b", "C"]], tokenizer, tmp_path / "r", held_out=0.0)
    again = records.tokenizer()
    assert again.vocabulary == VOCABULARY and again.settings() == tokenizer.settings()
    records.check_tokenizer(again)
    assert records.pool(0).token_ids.numpy().tolist()[2] == again.unk_id


class Killed(BaseException):
    pass


_SLOW = pytest.mark.slow  # the same at another moment, or of another file


@pytest.mark.parametrize(
    "moment",
    [pytest.param("before a shard", marks=_SLOW), "before the state", pytest.param("before the manifest", marks=_SLOW)],
)
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(tokenizer, tmp_path, monkeypatch, moment):
    documents = make_documents(150, seed=3)
    write_records(documents, tokenizer, tmp_path / "whole", **ARGUMENTS)
    target = {
        "before a shard": "train-00005.index",
        "before the state": "unfinished.json",
        "before the manifest": "manifest.json",
    }
    written = []

    def write(path, content):
        written.append(path.name)
        if path.name == target[moment] and (moment != "before the state" or written.count(path.name) == 3):
            path.with_name(f".{path.name}.0.tmp").write_bytes(content[: len(content) // 2])
            raise Killed
        original(path, content)

    original = module._write_file
    monkeypatch.setattr(module, "_write_file", write)
    with pytest.raises(Killed):
        write_records(documents, tokenizer, tmp_path / "killed", **ARGUMENTS)
    monkeypatch.setattr(module, "_write_file", original)
    assert is_records(tmp_path / "killed")
    with pytest.raises(ValueError, match="is unfinished"):
        Records(tmp_path / "killed")
    with pytest.raises(ValueError, match="shard_tokens=300, received 301"):
        write_records(documents, tokenizer, tmp_path / "killed", **ARGUMENTS | {"shard_tokens": 301})
    write_records(documents, tokenizer, tmp_path / "killed", **ARGUMENTS)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_killed_between_the_manifest_and_the_end(tokenizer, tmp_path, monkeypatch):
    """Both manifest.json and unfinished.json are there: the same call ends it."""
    documents, states = make_documents(30), []
    original = module._write_file
    monkeypatch.setattr(
        module, "_write_file", lambda path, content: states.append((path, content)) or original(path, content)
    )
    write_records(documents, tokenizer, tmp_path / "r", **ARGUMENTS)
    whole = contents(tmp_path / "r")
    path, state = [(path, content) for path, content in states if path.name == "unfinished.json"][-1]
    path.write_bytes(state)
    write_records(documents, tokenizer, tmp_path / "r", **ARGUMENTS)
    assert contents(tmp_path / "r") == whole


@pytest.mark.parametrize(
    "name", ["unfinished.json", "train-00001.tokens", pytest.param("held-out-00000.index", marks=_SLOW)]
)
def test_a_damaged_unfinished_run_is_not_resumed(tokenizer, tmp_path, monkeypatch, name):
    documents = make_documents(60, seed=3)
    monkeypatch.setattr(module.RecordsWriter, "write_manifest", lambda writer: None)
    with pytest.raises(ValueError, match="is unfinished"):
        write_records(documents, tokenizer, tmp_path / "r", **ARGUMENTS)
    content = bytearray((tmp_path / "r" / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "r" / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}.* Give `overwrite` to start again"):
        write_records(documents, tokenizer, tmp_path / "r", **ARGUMENTS)


@pytest.mark.parametrize("lowercase", [True, pytest.param(False, marks=_SLOW)])
def test_accents_are_stripped_by_default_or_by_name(tmp_path, lowercase):
    """`strip_accents=None` means True where text is lower-cased, False where it is not."""
    open_, named = (BertTokenizer(VOCABULARY, lowercase=lowercase, strip_accents=s) for s in (None, lowercase))
    directory = tmp_path / str(lowercase)
    records = write_records([["a b"]], open_, directory, held_out=0.0)
    records.check_tokenizer(named)
    before = contents(directory)
    write_records([["a b"]], named, directory, held_out=0.0)  # the same records: nothing to do
    assert contents(directory) == before
    with pytest.raises(ValueError, match=f"strip_accents={lowercase}, received {not lowercase}"):
        records.check_tokenizer(BertTokenizer(VOCABULARY, lowercase=lowercase, strip_accents=not lowercase))


def test_complete_records_are_left_alone(tokenizer, tmp_path):
    documents = make_documents(20)
    write_records(documents, tokenizer, tmp_path / "r", settings={"corpus": "x"}, **ARGUMENTS)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "r").iterdir()}
    write_records(documents, tokenizer, tmp_path / "r", settings={"corpus": "x", "language": None}, **ARGUMENTS)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "r").iterdir()}
    with pytest.raises(ValueError, match="records with other settings: corpus='x', received 'y'"):
        write_records(documents, tokenizer, tmp_path / "r", settings={"corpus": "y"}, **ARGUMENTS)
    records = write_records(
        [["a b"]], tokenizer, tmp_path / "r", settings={"corpus": "y"}, overwrite=True, held_out=0.0
    )
    assert len(documents_of(records)) == 1 and len(list((tmp_path / "r").iterdir())) == 4


@pytest.mark.parametrize("name", ["thesis.txt", "vocab.txt", "train-v2.0.json", "held-out-00000.txt"])
def test_other_files_are_never_touched(tokenizer, tmp_path, name):
    (tmp_path / name).write_text("x")
    for overwrite in (False, True):
        with pytest.raises(ValueError, match=f"holds other files .{name}"):
            write_records([["a"]], tokenizer, tmp_path, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_a_killed_process_leaves_is_records(tokenizer, tmp_path):
    """Shards without a manifest, as of a deletion, are deleted if so asked; half a file is nothing."""
    whole = contents(write_records(make_documents(20), tokenizer, tmp_path / "whole", **ARGUMENTS).directory)
    deleting = tmp_path / "deleting"
    deleting.mkdir()
    for name in ("vocab.txt", "train-00000.tokens"):
        (deleting / name).write_bytes(whole[name])
    with pytest.raises(ValueError, match=r"unfinished\.json is missing.* Give `overwrite` to start again"):
        write_records(make_documents(20), tokenizer, deleting, **ARGUMENTS)
    assert len(list(deleting.iterdir())) == 2
    starting = tmp_path / "starting"
    starting.mkdir()
    (starting / ".unfinished.json.0.tmp").write_bytes(b"{")
    for directory, overwrite in ((deleting, True), (starting, False)):
        write_records(make_documents(20), tokenizer, directory, overwrite=overwrite, **ARGUMENTS)
        assert contents(directory) == whole


def test_nothing_to_write(tokenizer, tmp_path):
    with pytest.raises(ValueError, match="no document"):
        write_records([], tokenizer, tmp_path / "r")
    assert not (tmp_path / "r").exists()
    with pytest.raises(ValueError, match="no document with a token"):
        write_records([["\x00"]], tokenizer, tmp_path / "r")
    for bad in ({"held_out": 1.0}, {"shard_tokens": 0}, {"shuffle_shards": 0}):
        with pytest.raises(ValueError, match="Received"):
            write_records([["a"]], tokenizer, tmp_path / "s", **bad)
    assert not (tmp_path / "s").exists()


def test_damage_is_named(tokenizer, tmp_path):
    records = write_records(make_documents(20), tokenizer, tmp_path / "r", **ARGUMENTS)
    shard = records.directory / "train-00000.tokens"
    whole = shard.read_bytes()
    shard.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    opened = Records(tmp_path / "r")
    for read in (records.check_hashes, lambda: opened.pool(0)):
        with pytest.raises(ValueError, match="train-00000.tokens is damaged: its SHA-256"):
            read()
    shard.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=f"train-00000.tokens is damaged.*expected {len(whole):,} bytes"):
        Records(tmp_path / "r")
    shard.unlink()
    with pytest.raises(ValueError, match="train-00000.tokens is missing"):
        Records(tmp_path / "r")
    manifest = records.directory / "manifest.json"
    for text, message in (
        (manifest.read_text()[:50], "manifest.json is damaged"),
        (json.dumps({"format": "kbert records 9"}), "Received: 'kbert records 9'"),
        ("[]", "Received: "),
    ):
        manifest.write_text(text)
        with pytest.raises(ValueError, match=message):
            Records(tmp_path / "r")
    manifest.unlink()
    with pytest.raises(ValueError, match="manifest.json is missing"):
        Records(tmp_path / "r")
    with pytest.raises(ValueError, match="is not a directory"):
        Records(tmp_path / "none")
    assert not is_records(tmp_path) and not is_records(tmp_path / "none")


def test_make_pool_drops_what_is_empty():
    sentences = tf.ragged.constant([[], [1, 2], [], [], [3], [4, 5, 6], []], dtype=tf.int32)
    pool = make_pool(sentences, tf.constant([2, 1, 0, 2, 2]), tf.constant([10, 11, 12, 13, 14], tf.int64))
    assert pool.token_ids.numpy().tolist() == [1, 2, 3, 4, 5, 6]
    assert pool.sentence_lengths.numpy().tolist() == [2, 1, 3]
    assert pool.document_splits.numpy().tolist() == [0, 1, 2, 3]
    assert pool.document_ids.numpy().tolist() == [10, 13, 14]


def test_make_pool_of_nothing():
    pool = make_pool(tf.ragged.constant([[], []], dtype=tf.int32), tf.constant([2]), tf.constant([0], tf.int64))
    assert [part.shape[0] for part in pool] == [0, 0, 1, 0]


def test_text_pools_hold_whole_documents():
    documents = make_documents(30, seed=2)
    tokenizer = make_tokenizer()
    pools = list(text_pools(enumerate(documents), tokenizer, pool_sentences=40))
    assert len(pools) > 2
    assert np.concatenate([pool.document_ids for _, pool in pools]).tolist() == list(range(30))
    assert [following for following, _ in pools] == [int(pool.document_ids[-1]) + 1 for _, pool in pools]
    assert all(len(pool.sentence_lengths) >= 40 for _, pool in pools[:-1])
    sizes = np.concatenate([np.diff(pool.document_splits) for _, pool in pools]).tolist()
    assert sizes == [len(document) for document in documents]
    expected = tokenizer(tf.constant([s for document in documents for s in document])).flat_values
    np.testing.assert_array_equal(np.concatenate([pool.token_ids for _, pool in pools]), expected)


def test_held_out_share():
    documents = [[f"document {i}", "its second sentence"] for i in range(20_000)]
    held_out = [is_held_out(document, 0.05) for document in documents]
    assert abs(np.mean(held_out) - 0.05) < 0.006
    assert not any(is_held_out(document, 0.0) for document in documents[:100])
    more = [is_held_out(document, 0.2) for document in documents]
    assert all(b for a, b in zip(held_out, more, strict=True) if a)  # a larger fraction only adds to it
    assert is_held_out(["document 3", "its second sentence"], 0.05) == held_out[3]  # by the text alone
