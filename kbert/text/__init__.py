"""Strings to token ids, in graph."""
