"""Hides TensorFlow's start-up messages, for processes that import kbert before TensorFlow."""

import os
import sys

from kbert.lazy import run_import

# What absl writes before TensorFlow has told it that TF_CPP_MIN_LOG_LEVEL holds, which TensorFlow 2.21 does too late.
_START_UP = rb"WARNING: All log messages before absl::InitializeLog\(\)|[IWE]\d{4} .*\.cc:\d+\] "


def quiet_tensorflow() -> None:
    """Hides the messages that TensorFlow writes when it is imported and starts, if that is still to come.

    Exceptions, and everything that is not a line of TensorFlow's C++ log, are still shown. If the environment variable
    ``TF_CPP_MIN_LOG_LEVEL`` is 0, everything is shown.
    """
    run_import("tensorflow", _run_quietly)


def _run_quietly(execute, module):
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        return execute(module)
    import re  # not on import: `import kbert` costs nothing
    import tempfile

    try:
        sys.stderr.flush()
        before = os.dup(2)
    except (AttributeError, OSError):  # a program without standard error
        return execute(module)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            execute(module)
        finally:
            os.dup2(before, 2)
            os.close(before)
            held.seek(0)
            for line in held:
                if not re.match(_START_UP, line):
                    os.write(2, line)
