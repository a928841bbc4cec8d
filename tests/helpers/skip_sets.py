"""Keras' saving and loading without a new layer for every layer that it comes to."""

import functools


def find_skip_sets_once(set_attribute=setattr):
    """From now on Keras finds once for each kind of object which attributes it need not look at.

    Keras 3.15 means to, but stores what it found under another name than it looks it up by. It makes a `keras.Layer` to
    find it, for each layer that it saves or loads, which takes half the time of saving a small model.
    """
    from keras.src.saving import saving_lib

    set_attribute(saving_lib, "get_attr_skipset", functools.cache(saving_lib.get_attr_skipset))
