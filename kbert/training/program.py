"""What a program that trains or reads a user's files does with errors and signals: one line, no traceback."""

import contextlib
import logging
import os
import re
import sys
import traceback

from kbert.training.console import log_to_console


def run_program(main, resumes: bool = False) -> None:
    """Runs `main` as a program: what may befall a training from outside ends it with one line.

    That is a signal, divergence, a fault of the disk, a lost worker, a damaged input or too little memory. The exit
    status is 130 after SIGINT, 143 after SIGTERM, 1 after an error. Before the program ends, files that are half
    written are removed and a training step is finished and saved; a second signal ends it at once.

    Args:
        main: function without arguments.
        resumes: whether the same command resumes a run from its checkpoints.

    Example::

        if __name__ == "__main__":
            run_program(main, resumes=True)
    """
    from kbert.training.signals import Interrupted, interrupt, let_signals_kill, take_signals
    from kbert.training.workers import LostWorker, named_losses

    log_to_console()
    logging.getLogger("kbert").propagate = False  # to the handler that TensorFlow's imports leave at the root
    take_signals(interrupt)
    try:
        with named_losses():
            main()
    except KeyboardInterrupt as error:
        let_signals_kill()
        stopped = error if isinstance(error, Interrupted) else Interrupted()
        if stopped.report is None:
            hint = "The same command resumes the run." if resumes else "No file was left half written."
            print(f"\nInterrupted by {stopped.number.name}. {hint}", file=sys.stderr, flush=True)
        sys.exit(stopped.status)
    except (FloatingPointError, LostWorker) as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # without HDF5's clean-up, which crashes over a file that the disk did not take
    except ValueError as error:
        from kbert.corpus.reading_errors import UnreadableInput
        from kbert.training.batch_memory import OutOfMemory

        if not isinstance(error, UnreadableInput | OutOfMemory):
            raise
        sys.exit(f"error: {error}")


_TRAINING = ("fit_steps", "finish")  # functions whose errors are no matter of what a user has given


@contextlib.contextmanager
def plain_errors():
    """What is wrong with a user's files is one line, not a traceback; errors of training and saving are raised."""
    try:
        yield
    except Exception as error:
        if any(frame.f_code.co_name in _TRAINING for frame, _ in traceback.walk_tb(error.__traceback__)):
            raise
        if isinstance(error, ValueError | OSError | RuntimeError | FloatingPointError):  # RuntimeError: no such device
            sys.exit(f"error: {error}")
        # What a reader raises inside tf.data comes out as an error of TensorFlow, with a traceback for its message.
        if not (reason := re.search(r"\b(?:ValueError|OSError): (.*)", str(error))) or not hasattr(error, "op"):
            raise
        sys.exit(f"error: {reason[1]}")
