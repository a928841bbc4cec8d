"""Hides TensorFlow's start-up messages."""

import importlib.machinery
import logging
import os
import re
import sys
import tempfile

# What absl writes before TensorFlow has told it that TF_CPP_MIN_LOG_LEVEL holds, which TensorFlow 2.21 does too late.
_START_UP = re.compile(rb"WARNING: All log messages before absl::InitializeLog\(\)|[IWE]\d{4} .*\.cc:\d+\] ")


def quiet_tensorflow() -> None:
    """Hides the messages that TensorFlow writes when it is imported and starts; call it before that.

    Errors, and everything that is not a line of TensorFlow's C++ log, are still shown. If the environment variable
    ``TF_CPP_MIN_LOG_LEVEL`` is 0, everything is shown.
    """
    logging.getLogger("tensorflow").addFilter(_is_no_retracing)
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0" or "tensorflow" in sys.modules:
        return
    if not any(isinstance(finder, _QuietFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _QuietFinder())


def _is_no_retracing(record):
    """Models that are run one after another look to TensorFlow like one that is traced again and again."""
    return "triggered tf.function retracing" not in record.getMessage()


class _QuietFinder:
    """Finds TensorFlow as Python does, and runs it with standard error held back."""

    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: _run_quietly(execute, module)
        return spec


def _run_quietly(execute, module):
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
                if not _START_UP.match(line):
                    os.write(2, line)
