"""Checkpoints, read and written."""
