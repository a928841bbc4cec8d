"""The initialiser of every kernel and table of BERT."""

import keras


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """A new normal initialiser, truncated at two standard deviations, as Google's ``create_initializer``.

    A Keras initialiser draws its seed when it is made: one object used for two variables of one shape would give both
    the same values.
    """
    return keras.initializers.TruncatedNormal(mean=0.0, stddev=stddev)
