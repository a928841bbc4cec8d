"""Errors and signals of programs that train or read a user's files: one line, no traceback."""

import contextlib
import os
import re
import sys
import traceback

from kbert.training.console import log_to_console


def run_program(main, resumes: bool = False) -> None:
    """Runs `main` as a program in which external causes of failure end with one line.

    These are a signal, divergence, a disk error, a lost worker, a damaged input or too little memory. The exit
    status is 130 after SIGINT, 143 after SIGTERM, 1 after an error. Before the program ends, partial files are removed
    and the current training step is finished and saved; a second signal ends it at once.

    Args:
        main: function without arguments.
        resumes: whether the same command resumes a run from its checkpoints; with --dry-run there is no run.

    Example::

        if __name__ == "__main__":
            run_program(main, resumes=True)
    """
    from kbert.training.signals import Interrupted, interrupt, let_signals_kill, take_signals

    take_signals(interrupt)
    try:
        log_to_console()  # before TensorFlow is imported
        from kbert.training.workers import LostWorker, named_losses

        with named_losses():
            main()
    except KeyboardInterrupt as error:
        let_signals_kill()
        stopped = error if isinstance(error, Interrupted) else Interrupted()
        if stopped.report is None:
            hint = " The same command resumes the run." if resumes else " No partial files were left."
            hint = "" if "--dry-run" in sys.argv else hint
            print(f"\nInterrupted by {stopped.number.name}.{hint}", file=sys.stderr, flush=True)
        sys.exit(stopped.status)
    except (FloatingPointError, LostWorker) as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # without HDF5's clean-up, which crashes after a failed write
    except ValueError as error:
        from kbert.corpus.reading_errors import UnreadableInput
        from kbert.training.batch_memory import OutOfMemory

        if not isinstance(error, UnreadableInput | OutOfMemory):
            raise
        sys.exit(f"error: {error}")


_TRAINING = ("fit_steps", "finish")  # functions whose errors do not come from the user's input


@contextlib.contextmanager
def plain_errors():
    """Shows errors in a user's files as one line without a traceback; errors of training and saving are raised."""
    try:
        yield
    except Exception as error:
        if any(frame.f_code.co_name in _TRAINING for frame, _ in traceback.walk_tb(error.__traceback__)):
            raise
        if isinstance(error, ValueError | OSError | RuntimeError | FloatingPointError):  # RuntimeError: no such device
            sys.exit(f"error: {error}")
        # An error raised inside tf.data becomes a TensorFlow error whose message contains a traceback.
        if not (reason := re.search(r"\b(?:ValueError|OSError): (.*)", str(error))) or not hasattr(error, "op"):
            raise
        sys.exit(f"error: {reason[1]}")
