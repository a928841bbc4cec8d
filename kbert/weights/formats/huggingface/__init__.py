"""Directories of Hugging Face's transformers."""
