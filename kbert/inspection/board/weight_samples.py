"""Values of the weights, for histograms."""

import math

import numpy as np
from keras import ops

_MOST = 2**16  # values of a variable


def weight_samples(model) -> dict[str, np.ndarray]:
    """Values of every trainable matrix of a model: all of them, or 65,536 that are spread over rows and columns.

    Returns:
        dict of the variable's path → float32 [values].
    """
    return {
        variable.path: np.asarray(_spread(variable), "float32")
        for variable in model.trainable_variables
        if len(variable.shape) > 1
    }


def _spread(variable):
    count = math.prod(variable.shape)
    if count <= _MOST:
        return np.ravel(ops.convert_to_numpy(variable))
    stride = -(-count // _MOST)
    while math.gcd(stride, variable.shape[-1]) > 1:  # else a few columns would stand for all
        stride += 1
    return ops.convert_to_numpy(ops.reshape(ops.convert_to_tensor(variable), (-1,))[::stride])
