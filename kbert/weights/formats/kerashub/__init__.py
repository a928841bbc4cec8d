"""Presets of KerasHub."""
