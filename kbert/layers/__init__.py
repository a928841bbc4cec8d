"""Batches to hidden states; keras.ops only."""
