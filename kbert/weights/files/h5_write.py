"""Writing HDF5: what h5py prints and forgets, when it closes a file that the disk does not take, is an error."""

import contextlib
import sys
import traceback


@contextlib.contextmanager
def h5_errors_raised(path):
    """Raises what h5py only prints while it deletes its objects; the file may be incomplete then.

    Args:
        path: what is written in the block.

    Raises:
        OSError: h5py could not write the file; the message names it.

    Example::

        with h5_errors_raised("model.weights.h5"):
            model.save_weights("model.weights.h5")
    """
    printed, hooks = [], (sys.excepthook, sys.unraisablehook)
    sys.excepthook = lambda kind, error, trace: printed.append(error)  # Cython calls both
    sys.unraisablehook = lambda unraisable: printed.append(unraisable.exc_value)
    try:
        yield
    except Exception as error:
        if printed:  # such as that a file is missing, which h5py did not write
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
