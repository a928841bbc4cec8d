"""Checkpoints of huggingface."""
