"""Columns of strings, as tensors, arrays or lists → string tensors [B]; and back.

Shapes: B batch, C choices.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kbert.checks import is_missing, shown, warn_of_empty_texts

_OF_MODELS = {"token_ids", "padding_mask", "segment_ids", "input_ids", "attention_mask", "token_type_ids"}


def string_columns(
    inputs: Any, names: Sequence[str], owner: str, list_columns: Collection[str] = ()
) -> list[tf.Tensor]:
    """The named columns of `inputs` as string tensors: [B], or [B, C] for `list_columns`.

    `inputs` is a dict, DataFrame or Hugging Face dataset that has these names, or a list of dicts, one
    for each row. For a single name it may be the strings themselves, [B] or, as some readers of tables
    give them, [B, 1]. For several names it may be a list of tuples, one for each row. None, NaN and
    pandas' NA are empty strings. Lists that differ in length, and ragged tensors, are filled up with
    empty strings. Errors name `owner`, the class that asks.
    """
    if hasattr(inputs, "column_names") and hasattr(inputs, "with_format"):  # a Hugging Face dataset
        plain = inputs.with_format(None)  # a format may have hidden columns
        inputs = {name: list(plain[name]) if name in names else None for name in plain.column_names}
    elif hasattr(inputs, "columns"):
        inputs = {name: inputs[name] for name in inputs.columns}
    elif _are_dicts(inputs):
        inputs = _columns_of_dicts(inputs, names, owner)
    if not isinstance(inputs, Mapping):
        inputs = {names[0]: inputs} if len(names) == 1 else _columns_of_rows(inputs, names, owner)
    missing = [name for name in names if name not in inputs]
    if missing:
        tokenised = sorted(_OF_MODELS & set(inputs))
        hint = f". {', '.join(tokenised)} are for the model itself; here texts are strings" if tokenised else ""
        raise ValueError(
            f"{owner}: expected a dict with {list(names)}. Received: {sorted(inputs)}; missing: {missing}{hint}"
        )
    columns = [(_list_column if name in list_columns else _column)(inputs[name], name, owner) for name in names]
    return _of_one_length(columns, names, owner)


def column_names(inputs: Any) -> list[str]:
    """The names of the columns of `inputs`; none for strings and tuples."""
    if isinstance(inputs, Mapping):
        return list(inputs)
    if _are_dicts(inputs):
        return list(inputs[0])
    names = [getattr(inputs, name) for name in ("column_names", "columns") if hasattr(inputs, name)]
    return list(names[0]) if names else []


def once_true(condition: tf.Tensor, tensors: Any, *data) -> Any:
    """Returns `tensors` once a condition is true; else the graph raises InvalidArgumentError with `data`."""
    # Not tf.debugging.Assert, which words its errors differently without a graph.
    check = tf.raw_ops.Assert(condition=condition, data=list(data), summarize=5)
    with tf.control_dependencies([] if check is None else [check]):
        return tf.nest.map_structure(tf.identity, tensors)


def assertion_message(error: tf.errors.InvalidArgumentError) -> str:
    """What `once_true` said, or the last line of another error; TensorFlow's words around it are left out."""
    said = re.search(r"assertion failed: \[(.*?)\](?: \[Op|\n|$)", error.message)
    lines = [line for line in error.message.splitlines() if line and not line.startswith("\t [[")]
    return said[1] if said else lines[-1].strip()


def _are_dicts(inputs):
    return isinstance(inputs, list | tuple) and len(inputs) > 0 and isinstance(inputs[0], Mapping)


def _columns_of_dicts(rows, names, owner):
    for number, row in enumerate(rows):
        if missing := [name for name in names if name not in row]:
            raise ValueError(
                f"{owner}: row {number}: expected {list(names)}. Received: {shown(list(row))}; missing: {missing}"
            )
    return {name: [row[name] for row in rows] for name in names}


def _columns_of_rows(rows, names, owner):
    if not isinstance(rows, list) or not all(isinstance(row, tuple) and len(row) == len(names) for row in rows):
        raise ValueError(
            f"{owner}: expected a dict with {list(names)}, or a list of such dicts or tuples. "
            f"Received: {type(rows).__name__}"
            + (f" of {shown(rows[0])}" if isinstance(rows, list | tuple) and rows else "")
        )
    return {name: [row[n] for row in rows] for n, name in enumerate(names)}


def as_text(array: np.ndarray) -> np.ndarray:
    """An array of strings as an array of str, of which TensorFlow makes bytes; other arrays unchanged."""
    if array.dtype != object:
        return array
    flat = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in array.ravel()]
    return np.array(flat, dtype=object).reshape(array.shape)


def _of_one_length(columns, names, owner):
    """The columns, after a check of equal numbers of rows; a graph may check only when it runs."""
    rows = {name: column.shape[0] for name, column in zip(names, columns, strict=True) if column.shape.rank}
    if len(set(rows.values()) - {None}) > 1:
        raise ValueError(f"{owner}: expected columns of one length. Received: {rows}")
    if len(columns) == 1 or len(rows) == len(columns) and None not in rows.values():
        return columns
    sizes = tf.stack([tf.shape(column)[0] for column in columns])
    received = tf.strings.reduce_join(tf.strings.as_string(sizes), separator=", ")
    message = tf.strings.join([f"{owner}: expected the columns {', '.join(names)} in one length. Received: ", received])
    return once_true(tf.reduce_all(sizes == sizes[0]), columns, message)


def check_batches(dataset: tf.data.Dataset, names: Sequence[str], owner: str) -> None:
    """Raises a ValueError if a tf.data.Dataset is empty, or has rows instead of batches."""
    if int(dataset.cardinality()) == 0:
        raise ValueError(f"{owner}: expected a dataset of batches. Received: an empty dataset")
    spec = dataset.element_spec
    inputs = spec[0] if isinstance(spec, tuple) else spec
    columns = [inputs[name] for name in names if name in inputs] if isinstance(inputs, Mapping) else [inputs]
    if any(getattr(column, "shape", None) == () for column in columns):
        raise ValueError(f"{owner}: expected a dataset of batches (dataset.batch(32)). Received: elements of {inputs}")


def _list_column(values, name, owner):
    values = _plain(values)
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()  # an array of lists
    if isinstance(values, (list, tuple)):
        for number, row in enumerate(values):
            if row is None or isinstance(row, (int, float)):
                raise ValueError(f"{owner}: `{name}`[{number}]: expected a list of strings. Received: {shown(row)}")
        rows = [_plain(row) for row in values]
        if all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
            width = max(map(len, rows), default=0)
            values = [[*row, *[""] * (width - len(row))] for row in rows]
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


def warn_of_empty_strings(columns: Mapping[str, tf.Tensor]) -> None:
    """Logs how many texts are empty in each column [B] of strings."""
    for name, column in columns.items():
        if column.shape.rank == 1:
            empty = np.flatnonzero(tf.strings.strip(column).numpy() == b"")
            warn_of_empty_texts(name, len(empty), len(column), f"row {empty[0]}" if len(empty) else "")


def _strings(values, name, owner):
    values = _plain(values)
    try:
        return _string_tensor(values, name, owner)
    except (ValueError, TypeError):
        listed = values.tolist() if isinstance(values, np.ndarray) else values
        if not isinstance(listed, list | tuple) or not any(map(is_missing, tf.nest.flatten(listed))):
            raise
    filled = tf.nest.map_structure(lambda value: "" if is_missing(value) else value, listed)
    return _string_tensor(filled, name, owner)


def _string_tensor(values, name, owner):
    try:
        strings = tf.convert_to_tensor(values)
    except (ValueError, TypeError) as error:
        wrong = _first_not_string(values, f"`{name}`")
        if wrong is None and isinstance(values, (list, tuple)) and isinstance(values[0], (list, tuple)):
            message = f"`{name}` must be a column of strings [B]. Received: lists of unequal lengths"
            raise ValueError(f"{owner}: {message}") from error
        if wrong is None:
            kind = "Unicode strings" if isinstance(values, (list, tuple, np.ndarray)) else "strings, as a list or array"
            raise TypeError(f"{owner}: `{name}` must hold {kind}. Received: {shown(values, 200)}") from error
        raise ValueError(f"{owner}: {wrong[0]}: expected str. Received: {shown(wrong[1])}") from error
    if strings.dtype != tf.string and 0 in strings.shape:
        return tf.zeros(strings.shape, tf.string)  # an empty list has no type
    if strings.dtype != tf.string:
        raise TypeError(f"{owner}: `{name}` must hold strings. Received: {strings.dtype.name}")
    return strings


def _plain(values):
    """A pandas Series or an array of NumPy's StringDType as object array, a ragged tensor padded."""
    if isinstance(values, tf.RaggedTensor):
        return values.to_tensor()
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    return values.astype(object) if isinstance(values, np.ndarray) and values.dtype.kind == "T" else values


def _first_not_string(values, where):
    """(where, value) of the first element that is no string; lists are searched only if the first is one."""
    if values is None or isinstance(values, (int, float, dict)):
        return where, values
    if not isinstance(values, (list, tuple, np.ndarray)) or (isinstance(values, np.ndarray) and not values.ndim):
        return None
    nested = len(values) > 0 and isinstance(values[0], (list, tuple))
    for number, value in enumerate(values):
        if nested and isinstance(value, (list, tuple)):
            if (wrong := _first_not_string(value, f"{where}[{number}]")) is not None:
                return wrong
        elif not isinstance(value, (str, bytes)):
            return f"{where}[{number}]", value
    return None
