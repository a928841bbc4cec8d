"""Preprocessor + model + answers: one keras.Model from strings to answers."""
