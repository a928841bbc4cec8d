"""Rows in memory → columns: lists, dicts, pandas DataFrames, tf.data and Hugging Face's datasets."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbert.checks import shown
from kbert.tasks.stored_texts import StoredTexts, store_columns
from kbert.tasks.table import Table, as_cell, check_columns, read_table, table_columns


def read_columns(data: Any, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, list]:
    """The named columns of rows in memory.

    Args:
        data: a dict of columns, or a pandas DataFrame (anything with ``columns`` and ``frame[name]``). Or a list of
            dicts, of tuples in the order of `names`, or of strings for one name. Or a finite tf.data.Dataset of
            dicts, of such tuples or of strings, in batches or not. Or a Hugging Face datasets.Dataset, whose
            ClassLabels become their names (-1 becomes None). Of a DatasetDict the split "train" is read.
        names: the columns to read. Others are ignored.
        optional: further names, read if they exist.

    Returns:
        ``{name: list}``, with lists of one length. Tensors and NumPy values become Python values, bytes become str.

    Raises:
        TypeError: data of another type, or a column that is a single value.
        ValueError: a missing column, columns of different lengths, or no rows. The message names the row.
    """
    data = choose_split(data, "train")
    if hasattr(data, "element_spec"):
        data = _columns_of_dataset(data, names)
    elif _is_hugging_face(data):
        data = _columns_of_hugging_face(data, (*names, *optional))
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        present = list(data) if isinstance(data, Mapping) else list(data.columns)
        check_columns("the data", present, list(names))
        columns = {name: _column(name, data[name]) for name in (*names, *optional) if name in present}
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        columns = _columns_of_rows(data, names, optional)
    else:
        raise TypeError(
            "Expected examples as a file's path, a dict of columns, a list of dicts or tuples, a pandas frame, a "
            f"tf.data.Dataset or a datasets.Dataset. Received: {type(data).__name__}"
        )
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) != 1 or 0 in sizes.values():
        raise ValueError(f"Expected columns of one length, at least one row. Received: {sizes}")
    return {
        name: column if isinstance(column, StoredTexts) else [_plain(value) for value in column]
        for name, column in columns.items()
    }


def column_names(data: Any) -> list[str]:
    """The names of the columns of a table, in a file or in memory. Tuples have none."""
    if isinstance(data, str | os.PathLike):
        return table_columns(data)
    data = choose_split(data, "train")
    if hasattr(data, "element_spec"):
        data = data.element_spec
    for attribute in ("column_names", "columns"):
        if hasattr(data, attribute):
            return list(getattr(data, attribute))
    if isinstance(data, Sequence) and len(data) and not isinstance(data, str | bytes):
        data = data[0]
    return list(data) if isinstance(data, Mapping) else []


def has_splits(data: Any) -> bool:
    """Whether data are a Hugging Face datasets.DatasetDict, or a dict of their datasets."""
    return isinstance(data, Mapping) and len(data) > 0 and all(map(_is_hugging_face, data.values()))


def choose_split(data: Any, name: str) -> Any:
    """The named split of a Hugging Face datasets.DatasetDict. Other data are returned as they are."""
    if not has_splits(data):
        return data
    if name not in data:
        raise ValueError(
            f"Expected the split {name!r} of a DatasetDict. Received: {list(data)}; give one of them, such as "
            f"data[{list(data)[0]!r}]"
        )
    return data[name]


def table_of(data: Any, names: Sequence[str], optional: Sequence[str] = (), nested: Sequence[str] = ()) -> Table:
    """The named columns of a file (see `read_table`) or of rows in memory (see `read_columns`), with the same cells.

    Cells of the `nested` columns may be lists or dicts.
    """
    if isinstance(data, str | os.PathLike):
        return read_table(data, names, optional=optional, nested=nested)
    columns = read_columns(data, names, optional)
    cells = {
        name: column
        if isinstance(column, StoredTexts)
        else [as_cell(value, name, None, row, name in nested) for row, value in enumerate(column)]
        for name, column in columns.items()
    }
    return Table(None, range(len(cells[names[0]])), cells)


def _is_hugging_face(data):
    return hasattr(data, "column_names") and hasattr(data, "with_format")


def _column(name, values):
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):  # of a text `list` would make characters
        raise TypeError(f"Expected the column {name!r} as a list, with a value a row. Received: {shown(values)}")
    return values if isinstance(values, StoredTexts) else list(values)


def _columns_of_rows(rows, names, optional):
    if not len(rows):
        raise ValueError("Expected at least one row. Received: none")
    if isinstance(rows[0], Mapping):
        for number, row in enumerate(rows):
            check_columns(f"row {number}", list(row), list(names))
        more = [name for name in optional if any(name in row for row in rows)]
        return {name: [row.get(name) for row in rows] for name in (*names, *more)}
    if len(names) == 1 and isinstance(rows[0], str):
        return {names[0]: list(rows)}
    for number, row in enumerate(rows):
        if isinstance(row, str | bytes) or not hasattr(row, "__len__") or len(row) != len(names):
            raise ValueError(f"row {number}: expected {len(names)} values, {list(names)}. Received: {shown(row)}")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _columns_of_dataset(dataset, names):
    """A dict of columns. The columns of a dataset of tuples are called `names`."""
    if int(dataset.cardinality()) == -1:
        raise ValueError("Expected a finite dataset. Received: one that repeats forever")
    spec = dataset.element_spec
    if not isinstance(spec, dict | tuple):  # of one column, as a list of strings
        dataset, spec = dataset.map(lambda *column: column), (spec,)
    if not isinstance(spec, dict):
        spec = (*spec[0].values(), *spec[1:]) if isinstance(spec[0], dict) else spec
    specs = spec.values() if isinstance(spec, dict) else spec
    columns = store_columns(_rows_of_dataset(dataset, all(column.shape.rank for column in specs)), len(specs))
    if not len(columns[0]):
        raise ValueError("Expected at least one row. Received: an empty dataset")
    if isinstance(spec, dict):
        return dict(zip(spec, columns, strict=True))
    if len(columns) != len(names):
        raise ValueError(f"row 0: expected {len(names)} values, {list(names)}. Received: {len(columns)} values")
    return dict(zip(names, columns, strict=True))


def _rows_of_dataset(dataset, batched):
    for element in dataset.as_numpy_iterator():
        if isinstance(element, dict):
            values = element.values()
        else:
            values = (*element[0].values(), *element[1:]) if isinstance(element[0], dict) else element
        for row in zip(*values, strict=True) if batched else [values]:
            yield [_plain(value) for value in row]


def _columns_of_hugging_face(dataset, names):
    plain = dataset.with_format(None)  # a format may have hidden columns, or made tensors of them
    return {
        name: [_label_name(value, plain.features[name]) for value in plain[name]] if name in names else plain[name]
        for name in plain.column_names
    }


def _label_name(value, feature):
    """The name of a ClassLabel, or of each one in a list."""
    if isinstance(value, list) and hasattr(feature, "feature"):
        return [_label_name(item, feature.feature) for item in value]
    if not hasattr(feature, "int2str") or value is None:
        return value
    return None if value == -1 else feature.int2str(value)  # -1: no label, as in GLUE's test sets


def _plain(value):
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
