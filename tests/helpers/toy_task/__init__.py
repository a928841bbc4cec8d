"""A task from outside kbert: whether a text is polite. Its files are all here."""
