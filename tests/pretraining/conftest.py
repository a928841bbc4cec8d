"""The small corpus of pre-training, as text and as records; files with other tokens have their own tokenizer."""

import pytest
from helpers.pretraining_batches import batches, dataset_of
from helpers.pretraining_fixtures import corpus, records, tokenizer  # noqa: F401


@pytest.fixture(scope="session")
def record_batches(records, tokenizer):  # noqa: F811
    """The first 110 batches of records with seed 0: more than two epochs."""
    return batches(dataset_of(records, tokenizer), 110)
