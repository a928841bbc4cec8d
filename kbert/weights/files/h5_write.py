"""Writing HDF5, where h5py only prints the errors of closing a file, such as a full disk."""

import contextlib
import sys
import traceback


@contextlib.contextmanager
def h5_errors_raised(path):
    """Raises errors that h5py only prints while it deletes its objects; the file at `path` may be incomplete."""
    printed, hooks = [], (sys.excepthook, sys.unraisablehook)
    sys.excepthook = lambda kind, error, trace: printed.append(error)  # Cython calls both
    sys.unraisablehook = lambda unraisable: printed.append(unraisable.exc_value)
    try:
        yield
    except Exception as error:
        if printed:  # such as a missing file that h5py did not write
            raise OSError(f"{path}: not written: {printed[0]}") from error
        cause = error
        while cause is not None:  # h5py's objects are deleted now, not when the program ends
            traceback.clear_frames(cause.__traceback__)
            cause = cause.__context__
        raise
    finally:
        sys.excepthook, sys.unraisablehook = hooks
    if printed:
        raise OSError(f"{path}: not written: {printed[0]}") from printed[0]
