"""Shows kbert's log messages on the console, for programs such as the recipes."""

import logging
import sys


class _Stdout(logging.StreamHandler):
    """Writes to the current `sys.stdout`, which tests and notebooks replace."""

    def __init__(self):
        logging.Handler.__init__(self)

    @property
    def stream(self):
        return sys.stdout


def log_to_console() -> None:
    """Shows kbert's log messages from level INFO on standard output; a second call changes nothing.

    Example::

        log_to_console()
        kbert.finetune("runs/tiny", task, train, dev)  # step 50/344  loss 0.6931 …
    """
    logger = logging.getLogger("kbert")
    if not any(isinstance(handler, _Stdout) for handler in logger.handlers):
        logger.addHandler(_Stdout())
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
