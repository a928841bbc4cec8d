"""Benchmark files and one's own tables to labelled text, and official metrics."""
