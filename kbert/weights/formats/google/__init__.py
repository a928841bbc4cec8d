"""Checkpoints of google."""
