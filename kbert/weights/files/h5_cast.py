"""Keras' `.weights.h5` files at half the size; Keras itself writes each variable in the type that it has in memory."""

import pathlib

import ml_dtypes
import numpy as np

_TYPES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
STORAGE_DTYPES = ("float32", *_TYPES)


def cast_h5(path, dtype: str) -> None:
    """Rewrites a file with its float32 variables in "float16" or "bfloat16", as Keras would, one in memory at a time.

    Values are rounded to the nearest. Loading converts them back to float32, which is exact.
    """
    import h5py

    path = pathlib.Path(path)
    narrow = path.with_name(path.name + ".cast")
    try:
        with h5py.File(path, "r") as source, h5py.File(narrow, "w") as target:
            _copy(source, target, dtype)
        narrow.replace(path)
    finally:
        narrow.unlink(missing_ok=True)


def _copy(source, target, dtype):
    import h5py

    target.attrs.update(source.attrs)
    for name, entry in source.items():
        if isinstance(entry, h5py.Group):
            _copy(entry, target.create_group(name), dtype)
            continue
        values = entry[()]
        if values.dtype == np.float32:
            values = _cast(values, dtype, entry.name)
        copy = target.create_dataset(name, data=values)
        copy.attrs.update(entry.attrs)
        if values.dtype == ml_dtypes.bfloat16:
            copy.attrs["dtype"] = "bfloat16"  # HDF5 has no such type: Keras looks for this


def _cast(values, dtype, name):
    with np.errstate(over="ignore"):
        cast = values.astype(_TYPES[dtype])
    if np.any(np.isinf(cast) & np.isfinite(values)):
        raise ValueError(
            f"{name}: expected numbers that {dtype} can hold. Received: one of {np.max(np.abs(values)):.3g}. Take "
            '"bfloat16", which reaches as far as float32, or "float32".'
        )
    return cast
