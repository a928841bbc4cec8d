"""The formats of checkpoints, one folder each."""
