"""The small corpus of pre-training, as text and as records; files with other tokens have their own tokenizer."""

from helpers.pretraining_fixtures import corpus, records, tokenizer  # noqa: F401
