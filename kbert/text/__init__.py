"""Strings to token ids, in graph."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BertTokenizer": "tokenizer",
        "Normalizer": "normalizer",
        "WordPiece": "wordpiece",
        "learn_vocabulary": "learn_vocabulary",
        "pack": "packing",
        "pack_ranges": "packing",
        "read_vocabulary": "vocabulary",
        "write_vocabulary": "vocabulary",
    },
)
