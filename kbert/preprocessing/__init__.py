"""Strings → batches, in graph: the preprocessors of every task, windows over long texts, length buckets."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
