"""The global random generators, which belong to the user."""

import random

import numpy as np
import tensorflow as tf


def assert_not_reset(call):
    """No generator repeats a draw after a call."""
    drawn = []
    for _ in range(3):
        drawn.append((random.random(), np.random.random(), float(tf.random.uniform([]))))
        call()
    assert [len(set(numbers)) for numbers in zip(*drawn, strict=True)] == [3, 3, 3], drawn
