"""A copy of a model, which can be trained without changing it."""


def copy_model(model):
    """A model of the same architecture and weights that shares nothing with the given one and is not compiled."""
    copy = type(model).from_config(model.get_config())
    copy.set_weights(model.get_weights())
    copy.pretrained = model.pretrained
    for block, of in zip(*(getattr(one, "encoder", one).blocks for one in (copy, model)), strict=True):
        block.rematerialize = of.rematerialize  # which is no part of an architecture
    return copy
