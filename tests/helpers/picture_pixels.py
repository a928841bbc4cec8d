"""Colours in pictures."""

import numpy as np


def pixels_of(pixels, colour):
    """(rows, columns) of the pixels of a colour such as "#0072b2"."""
    rgb = [int(colour[n : n + 2], 16) for n in (1, 3, 5)]
    return np.nonzero((np.abs(pixels.astype(int) - rgb) < 4).all(axis=-1))
