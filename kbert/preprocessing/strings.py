"""Columns of strings, as tensors, arrays or lists → string tensors [B]; and back.

Shapes: B batch, C choices.
"""

import numpy as np
import tensorflow as tf

_OF_MODELS = {"token_ids", "padding_mask", "segment_ids", "input_ids", "attention_mask", "token_type_ids"}


def string_columns(inputs, names, owner, list_columns=()):
    """The named columns of `inputs` as string tensors.

    Args:
        inputs: dict with (at least) these names, or, for a single name, the strings themselves: a tensor, a NumPy array
            or a list; [B], or [B, 1] as some readers of tables give them.
        owner: str, the class that asks, for error messages.
        list_columns: those of the names that have several strings per row, [B, C]; lists that differ in length are
            filled up with empty strings.

    Returns:
        list of string tensors [B] (of `list_columns` [B, C]), in the order of `names`.

    Raises:
        ValueError: a missing column, a single string, a wrong shape, columns of different lengths, an element (such as
            None) that is not a string; the message names it. In a graph that is built for any number of rows, columns
            of different lengths raise an InvalidArgumentError when it runs.
        TypeError: a tensor or array that does not hold strings.
    """
    if not isinstance(inputs, dict):
        if len(names) > 1:
            raise ValueError(f"{owner}: expected a dict with {list(names)}. Received: {type(inputs).__name__}")
        inputs = {names[0]: inputs}
    missing = [name for name in names if name not in inputs]
    if missing:
        tokenised = sorted(_OF_MODELS & set(inputs))
        hint = f". {', '.join(tokenised)} are for the model itself; here texts are strings" if tokenised else ""
        raise ValueError(
            f"{owner}: expected a dict with {list(names)}. Received: {sorted(inputs)}; missing: {missing}{hint}"
        )
    columns = [(_list_column if name in list_columns else _column)(inputs[name], name, owner) for name in names]
    return _of_one_length(columns, names, owner)


def as_text(array) -> np.ndarray:
    """An array of strings as one of str, of which TensorFlow makes bytes; another array as it is."""
    if array.dtype != object:
        return array
    flat = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in array.ravel()]
    return np.array(flat, dtype=object).reshape(array.shape)


def _of_one_length(columns, names, owner):
    """The columns, once they are known to have as many rows as each other: in a graph that may be at its run."""
    rows = {name: column.shape[0] for name, column in zip(names, columns, strict=True) if column.shape.rank}
    if len(set(rows.values()) - {None}) > 1:
        raise ValueError(f"{owner}: expected columns of one length. Received: {rows}")
    if len(columns) == 1 or len(rows) == len(columns) and None not in rows.values():
        return columns
    sizes = tf.stack([tf.shape(column)[0] for column in columns])
    received = tf.strings.reduce_join(tf.strings.as_string(sizes), separator=", ")
    message = tf.strings.join([f"{owner}: expected the columns {', '.join(names)} in one length. Received: ", received])
    # Not tf.debugging.Assert, which words its errors differently without a graph.
    check = tf.raw_ops.Assert(condition=tf.reduce_all(sizes == sizes[0]), data=[message])
    with tf.control_dependencies([check]):
        return [tf.identity(column) for column in columns]


def _list_column(values, name, owner):
    if isinstance(values, (list, tuple)):
        for number, row in enumerate(values):
            if row is None or isinstance(row, (int, float)):
                raise ValueError(f"{owner}: `{name}`[{number}]: expected a list of strings. Received: {row!r}")
    if isinstance(values, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in values):
        width = max(map(len, values), default=0)
        values = [[*row, *[""] * (width - len(row))] for row in values]
    strings = _strings(values, name, owner)
    if strings.shape.rank == 1 and 0 in strings.shape:
        strings = tf.zeros([0, 0], tf.string)
    if strings.shape.rank not in (2, None):
        raise ValueError(f"{owner}: `{name}` must have several strings per row [B, C]. Received: shape {strings.shape}")
    return strings


def _column(values, name, owner):
    strings = _strings(values, name, owner)
    if strings.shape.rank == 2 and strings.shape[1] == 1:
        strings = tf.squeeze(strings, axis=1)
    if strings.shape.rank not in (1, None):
        hint = "a list of one for a single text" if strings.shape.rank == 0 else "one string per row"
        raise ValueError(f"{owner}: `{name}` must be a column of strings [B] ({hint}). Received: shape {strings.shape}")
    return strings


def _strings(values, name, owner):
    try:
        strings = tf.convert_to_tensor(values)
    except (ValueError, TypeError) as error:
        found = _first_not_string(values, f"`{name}`")
        if found is None:
            raise
        raise ValueError(f"{owner}: {found[0]}: expected str. Received: {str(found[1])[:60]}") from error
    if strings.dtype != tf.string and 0 in strings.shape:
        return tf.zeros(strings.shape, tf.string)  # an empty list has no type
    if strings.dtype != tf.string:
        raise TypeError(f"{owner}: `{name}` must hold strings. Received: {strings.dtype.name}")
    return strings


def _first_not_string(values, where):
    """(where, value) of the first element that is not a string; lists are searched only if the first element is one."""
    if values is None or isinstance(values, (int, float, dict)):
        return where, values
    if not isinstance(values, (list, tuple)) and not hasattr(values, "__getitem__"):
        return None
    nested = len(values) > 0 and isinstance(values[0], (list, tuple))
    for number, value in enumerate(values):
        if nested and isinstance(value, (list, tuple)):
            if (found := _first_not_string(value, f"{where}[{number}]")) is not None:
                return found
        elif not isinstance(value, (str, bytes)):
            return f"{where}[{number}]", value
    return None
