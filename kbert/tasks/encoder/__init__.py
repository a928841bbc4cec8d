"""Encoders alone: embeddings of texts, hidden states."""
