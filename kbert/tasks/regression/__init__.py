"""A number on a text, or on a pair of texts."""
