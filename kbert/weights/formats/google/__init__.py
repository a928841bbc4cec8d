"""Checkpoints of google-research/bert."""
