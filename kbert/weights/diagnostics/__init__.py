"""Compares a loaded model with the library that its checkpoint comes from."""
