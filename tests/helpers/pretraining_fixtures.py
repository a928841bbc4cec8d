"""The small corpus of pre-training, as text and as records, to be left alone; files with other tokens have their own
tokenizer."""

import pytest

from helpers.pretraining_batches import HELD_OUT, write_corpus
from helpers.tiny_corpus import make_tokenizer
from kbert.corpus.documents import read_documents
from kbert.corpus.write_records import write_records


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def records(corpus, tmp_path_factory):
    directory = tmp_path_factory.mktemp("data") / "records"
    write_records(read_documents(corpus), make_tokenizer(), directory, shard_tokens=700, held_out=HELD_OUT)
    return directory
