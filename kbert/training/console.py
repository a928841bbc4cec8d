"""Shows kbert's log messages on the console, for programs such as the recipes."""

import logging
import sys


class _Stderr(logging.StreamHandler):
    """Writes to the current `sys.stderr`, which tests and notebooks replace."""

    def __init__(self):
        logging.Handler.__init__(self)

    @property
    def stream(self):
        return sys.stderr

    def emit(self, record):
        sys.stdout.flush()  # what was printed before stands before, where both go to one file
        super().emit(record)


def log_to_console() -> None:
    """Shows kbert's log messages from level INFO on standard error.

    Programs and notebooks call it to show the progress of `kbert.finetune` and `kbert.pretrain`. Standard output is
    left to a program's results, which other programs may read. A second call changes nothing.

    Example::

        kbert.log_to_console()
        kbert.finetune("saved_models/kbert-tiny", task, train, dev, learning_rate=1e-3)  # step 50/344  loss 0.6931 …
    """
    logging.getLogger("tensorflow").addFilter(_is_no_retracing)
    logger = logging.getLogger("kbert")
    logger.propagate = False  # to the handler that TensorFlow's imports leave at the root: every line would come twice
    if not any(isinstance(handler, _Stderr) for handler in logger.handlers):
        logger.addHandler(_Stderr())
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)


def _is_no_retracing(record):
    """Models that are run one after another look to TensorFlow like one that is traced again and again."""
    return "triggered tf.function retracing" not in record.getMessage()
