"""The initialiser of every kernel and table of BERT."""

import keras


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """A fresh normal initialiser cut at two standard deviations.

    Fresh, because a Keras initialiser draws its seed when it is made: one object used for two variables of one shape
    would give both the same values.

    Source: Google's ``modeling.py``, ``create_initializer``.
    """
    return keras.initializers.TruncatedNormal(mean=0.0, stddev=stddev)
