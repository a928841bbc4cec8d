"""Losses, metrics, the paper's optimizer and schedule."""
