"""Layers to keras.Model on batches."""
