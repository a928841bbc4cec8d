"""The masked language model: tokens for each [MASK]."""
