"""Small records, which no test changes, and what several files make of them once."""

import pytest
from helpers.data_once import data_once
from helpers.tiny_corpus import make_documents, make_tokenizer

from kbert.corpus.write_records import write_records


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    path = tmp_path_factory.mktemp("home") / "records"
    write_records(make_documents(60), make_tokenizer(), path, shard_tokens=300, held_out=0.2)
    return path


@pytest.fixture(scope="module")
def same_data():
    """`data_once`, for the tests of a file."""
    with pytest.MonkeyPatch.context() as patch:
        data_once(patch.setattr)
        yield
