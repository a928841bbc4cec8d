"""Logits to answers, in graph."""
