"""NumPy arrays ↔ tensorflow.TensorProto, without TensorFlow."""

import math

import numpy as np

_STRING = 7
_MOST = 2**28  # values of a tensor: more than any answer has; a broken message must not exhaust the memory
# DataType → (the layout of tensor_content, the field of single values)
_TYPES = {
    1: ("<f4", "float_val"),
    2: ("<f8", "double_val"),
    3: ("<i4", "int_val"),
    9: ("<i8", "int64_val"),
    10: ("?", "bool_val"),
}


def fill_tensor_proto(message, array):
    """Sets a TensorProto to a NumPy array (str, bytes, float32, float64, int32, int64, bool), and returns it.

    Raises:
        TypeError: another dtype.
    """
    array = np.asarray(array)
    message.tensor_shape.SetInParent()  # a scalar has a shape too
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if array.dtype.kind in "OSU":
        message.dtype = _STRING
        message.string_val.extend(map(_bytes, array.ravel().tolist()))
        return message
    for number, (layout, _) in _TYPES.items():
        if array.dtype == np.dtype(layout):
            message.dtype, message.tensor_content = number, array.astype(layout).tobytes()
            return message
    raise TypeError(f"expected strings, float32, float64, int32, int64 or bool. Received: {array.dtype}")


def tensor_proto_to_array(message):
    """TensorProto → NumPy array; strings become an object array of bytes.

    Raises:
        ValueError: a dtype that answers do not have, or values that do not fit the shape.
    """
    shape = tuple(dim.size for dim in message.tensor_shape.dim)
    if message.dtype == _STRING:
        values = np.array([*message.string_val, None], dtype=object)[:-1]
    elif message.dtype not in _TYPES:
        raise ValueError(f"expected a tensor of strings, floats, integers or bools. Received: DataType {message.dtype}")
    else:
        layout, field = _TYPES[message.dtype]
        content = message.tensor_content
        values = np.frombuffer(content, layout) if content else np.array(getattr(message, field), layout)
    size = math.prod(shape)
    if 0 < len(values) < size <= _MOST:  # TensorProto: the last value is repeated
        values = np.concatenate([values, np.repeat(values[-1:], size - len(values))])
    if len(values) != size:
        raise ValueError(f"expected {size} values, for shape {shape}. Received: {len(values)}")
    return values.reshape(shape)


def _bytes(value):
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    raise TypeError(f"expected strings. Received: {value!r}")
