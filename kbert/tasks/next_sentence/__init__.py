"""Whether a text follows another."""
