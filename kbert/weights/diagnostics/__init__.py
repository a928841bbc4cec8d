"""How far a loaded model is from the original's computation."""
