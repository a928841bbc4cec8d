"""Pre-training: the masked language model and the next-sentence task together."""
