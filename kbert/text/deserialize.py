"""Layers inside the configs of layers."""

import keras

import kbert.text.tokenizer  # noqa: F401  registers BertTokenizer, so that configs that hold one can be read


def deserialize(part):
    """A layer from its serialised config, or the layer itself.

    kbert's layers put other layers into `get_config` as they are: Keras serialises them when it saves (and then notices
    that two layers share one tokenizer, which it does not for configs serialised by hand), and ``from_config`` of a
    config that was never serialised shares them, vocabulary included.
    """
    return keras.saving.deserialize_keras_object(part) if isinstance(part, dict) else part
