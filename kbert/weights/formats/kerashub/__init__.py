"""Checkpoints of kerashub."""
