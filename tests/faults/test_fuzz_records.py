"""Damaged records, 2,000 mutations of each file: refused, by a ValueError that names the file."""

import pytest
from helpers.fuzz import check_reader
from helpers.tiny_corpus import make_documents, make_tokenizer

from kbert.corpus.records import Records
from kbert.corpus.write_records import write_records


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sound") / "records"
    write_records(make_documents(30, seed=2), make_tokenizer(), directory, shard_tokens=500, held_out=0.2)
    return directory


@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["train-00000.tokens", "held-out-00000.index", "manifest.json", "vocab.txt"])
def test_damaged_records(records, name, count):
    path = records / name
    sound = path.read_bytes()

    def read(path):
        Records(path.parent).check_hashes()
        content = path.read_bytes()
        assert content == sound or name.endswith((".json", ".txt")), "damage was not seen"

    try:
        found = check_reader(
            read, path, [sound], count, named=None if name.startswith(("train", "held")) else str(records)
        )
    finally:
        path.write_bytes(sound)
    assert found["refused"] > 0.8 * count
