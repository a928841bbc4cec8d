"""What users hand to a preprocessor → string tensors [B]."""

import tensorflow as tf


def string_columns(inputs, names, owner, matrices=()):
    """The named columns of `inputs` as string tensors.

    Args:
        inputs: dict with (at least) these names, or, for a single name, the strings themselves: a tensor, a NumPy array
            or a list; [B], or [B, 1] as some readers of tables give them.
        names: the columns wanted.
        owner: who asks, for error messages.
        matrices: those of the names that have several strings a row, [B, C]; lists that differ in length are filled up
            with empty strings.

    Returns:
        list of string tensors [B] (of `matrices` [B, C]), in the order of `names`.

    Raises:
        ValueError: a missing column, a single string, a shape that is no column, columns of different lengths.
        TypeError: no strings.
    """
    if not isinstance(inputs, dict):
        if len(names) > 1:
            raise ValueError(f"{owner}: expected a dict with {list(names)}. Received: {type(inputs).__name__}")
        inputs = {names[0]: inputs}
    missing = [name for name in names if name not in inputs]
    if missing:
        raise ValueError(f"{owner}: expected a dict with {list(names)}. Received: {sorted(inputs)}; missing: {missing}")
    columns = [(_matrix if name in matrices else _column)(inputs[name], name, owner) for name in names]
    rows = {name: column.shape[0] for name, column in zip(names, columns, strict=True) if column.shape.rank}
    if len(set(rows.values()) - {None}) > 1:
        raise ValueError(f"{owner}: expected columns of one length. Received: {rows}")
    return columns


def _matrix(values, name, owner):
    if isinstance(values, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in values):
        width = max(map(len, values), default=0)
        values = [[*row, *[""] * (width - len(row))] for row in values]
    strings = tf.convert_to_tensor(values)
    if strings.dtype != tf.string and 0 in strings.shape:
        strings = tf.zeros([strings.shape[0], 0], tf.string)  # an empty list has no type
    if strings.dtype != tf.string:
        raise TypeError(f"{owner}: `{name}` must hold strings. Received: {strings.dtype.name}")
    if strings.shape.rank not in (2, None):
        raise ValueError(f"{owner}: `{name}` must have several strings a row [B, C]. Received: shape {strings.shape}")
    return strings


def _column(values, name, owner):
    strings = tf.convert_to_tensor(values)
    if strings.dtype != tf.string and 0 in strings.shape:
        strings = tf.zeros(strings.shape, tf.string)  # an empty list has no type
    if strings.dtype != tf.string:
        raise TypeError(f"{owner}: `{name}` must hold strings. Received: {strings.dtype.name}")
    if strings.shape.rank == 2 and strings.shape[1] == 1:
        strings = tf.squeeze(strings, axis=1)
    if strings.shape.rank not in (1, None):
        hint = "a list of one for a single text" if strings.shape.rank == 0 else "one string a row"
        raise ValueError(f"{owner}: `{name}` must be a column of strings [B] ({hint}). Received: shape {strings.shape}")
    return strings
