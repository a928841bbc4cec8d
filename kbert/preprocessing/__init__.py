"""Strings → batches, in graph: the preprocessors of every task, windows over long texts, length buckets."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
