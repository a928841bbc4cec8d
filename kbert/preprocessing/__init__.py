"""Strings → batches, in graph: the preprocessors of every task, windows over long texts, length buckets."""
