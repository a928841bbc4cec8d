"""The feature-based approach: fixed hidden states, and a tagger on them."""
