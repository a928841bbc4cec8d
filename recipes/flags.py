"""The command line flags that recipes share: one name, one meaning and one check for each."""

import argparse
import contextlib
import logging
import math
import os
import pathlib
import re
import sys
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before TensorFlow is imported: warnings and errors only


class _Console(logging.StreamHandler):
    """Prints what the library logs; where output goes is asked at each line, as tests and notebooks redirect it."""

    def emit(self, record):
        self.stream = sys.stdout
        super().emit(record)


def show_log() -> None:
    """Has kbert's log printed: progress, warnings, what was resumed."""
    logger = logging.getLogger("kbert")
    if not any(isinstance(handler, _Console) for handler in logger.handlers):
        logger.addHandler(_Console())
    logger.setLevel(logging.INFO)


show_log()


def positive_int(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1. Received: {text}")
    return value


def positive_float(text: str) -> float:
    """A finite number above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0. Received: {text}")
    return value


def rate(text: str) -> float:
    """A number in [0, 1)."""
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a number in [0, 1). Received: {text}")
    return value


def source(text: str) -> pathlib.Path | str:
    """A model as `kbert.load_pretrained` takes it: its path, or a name on the Hugging Face hub."""
    from kbert.weights.source import local_source

    try:
        path = local_source(text)
    except FileNotFoundError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text if path is None else path


def directory(text: str) -> pathlib.Path:
    """A directory that exists."""
    if not pathlib.Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"expected a directory. Received: {text!r}, which is none")
    return pathlib.Path(text)


def file(text: str) -> pathlib.Path:
    """A file that exists."""
    if not pathlib.Path(text).is_file():
        raise argparse.ArgumentTypeError(f"expected a file. Received: {text!r}, which is none")
    return pathlib.Path(text)


_FLAGS = {
    "init": dict(metavar="SOURCE", type=source,
                 help="model to start from: a kbert directory, the output of a recipe, a checkpoint of Google, Hugging "
                      "Face or KerasHub, or a name on the hub, such as google-bert/bert-base-uncased"),
    "output": dict(metavar="DIR", type=pathlib.Path, required=True,
                   help="where everything goes; an unfinished run of the same settings there is continued"),
    "epochs": dict(metavar="N", type=positive_float, help="passes over the training examples"),
    "steps": dict(metavar="N", type=positive_int, help="weight updates, instead of --epochs"),
    "batch-size": dict(metavar="N", type=positive_int, default=32, help="examples an update, over all replicas"),
    "learning-rate": dict(metavar="X", type=positive_float, help="the peak, reached at the end of the warm-up"),
    "sequence-length": dict(metavar="N", type=positive_int, default=128,
                            help="tokens of a packed text or pair; longer ones are truncated"),
    "seed": dict(metavar="N", type=int, default=0, help="decides new weights, dropout and the order of the examples"),
    "strategy": dict(choices=("auto", "one", "mirrored", "multiworker", "tpu"), default="auto",
                     help="how the devices of this machine share the work"),
    "logical-cpus": dict(metavar="N", type=positive_int,
                         help="split the CPU into N devices, to try out --strategy mirrored without GPUs"),
    "precision": dict(choices=("auto", "float32", "mixed_bfloat16", "mixed_float16"), default="auto",
                      help="of the arithmetic; weights are float32 always"),
    "log-dir": dict(metavar="DIR", type=pathlib.Path, help="TensorBoard logs; default: logs/ in the output"),
    "json": dict(action="store_true", help="print the metrics as one JSON object on the last line"),
    "overwrite": dict(action="store_true", help="delete what another run left in --output"),
}  # fmt: skip


def add_flags(parser: argparse.ArgumentParser, *names: str, **overrides: dict) -> None:
    """Adds shared flags by name, in that order; an override changes arguments of one flag's `add_argument`.

    Example::

        add_flags(parser, "init", "output", "epochs", init={"required": True}, epochs={"default": 3.0})
    """
    unknown = set(overrides) - {name.replace("-", "_") for name in names}
    if unknown:
        raise ValueError(f"Overrides are for flags that are added ({names}). Received: {sorted(unknown)}")
    for name in names:
        arguments = {**_FLAGS[name], **overrides.get(name.replace("-", "_"), {})}
        default = arguments.get("default")
        if default is not None and "help" in arguments:
            arguments["help"] += f" (default: {default})"
        parser.add_argument(f"--{name}", **arguments)


def add_choice_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that say how multiple-choice questions are read; their label column is the recipe's own."""
    parser.add_argument("--format", choices=("swag", "dream", "table"), default="table",
                        help="of multiple choice: a published format, or a table (default: table)")  # fmt: skip
    parser.add_argument("--prompt-column", metavar="NAME", default="prompt",
                        help="column of what choices belong to (default: prompt)")  # fmt: skip
    parser.add_argument("--choice-columns", metavar="NAME", nargs="+", default=["choices"],
                        help="a column for each choice, or a .jsonl's key of lists (default: choices)")  # fmt: skip


def add_tag_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that say how columns of tagged words are read."""
    parser.add_argument("--tag-column", metavar="N", type=int, default=-1,
                        help="of the tag, from 0; negative from the end (default: -1, the last)")  # fmt: skip
    parser.add_argument("--scheme", choices=("iob1", "iob2", "bioes", "bilou"),
                        help="of the tags (default: recognised)")  # fmt: skip


def number_or_off(text: str) -> float | str:
    """A finite number, or the word off."""
    if text != "off" and not abs(float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number, or off. Received: {text}")
    return text if text == "off" else float(text)


def add_stored_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that replace, or turn off, what is stored with a model about its answers; for `stored_options`."""
    parser.add_argument("--window-pooling", choices=("mean", "max", "off"),
                        help="of long texts of a classifier or regressor: pool the answers to their windows, or "
                             "truncate them: off (default: the model's)")  # fmt: skip
    parser.add_argument("--null-threshold", metavar="X", type=number_or_off,
                        help="of questions: by how much \"no answer\" must beat the best answer; off: each is answered "
                             "(default: the model's)")  # fmt: skip


def stored_options(arguments: argparse.Namespace) -> dict:
    """The flags of `add_stored_flags` that are given, as `kbert.build_pipeline` takes them."""
    given = {"window_pooling": arguments.window_pooling, "null_threshold": arguments.null_threshold}
    return {name: None if value == "off" else value for name, value in given.items() if value is not None}


_NOT_SETTINGS = ("output", "overwrite", "json", "log_dir", "log_every", "checkpoint_every")


def settings_of(arguments: argparse.Namespace, *without: str) -> dict:
    """What a run is defined by, as JSON: all flags but those of where and how often it writes."""
    dropped = {*_NOT_SETTINGS, *without}
    return {
        name: str(value) if isinstance(value, pathlib.Path) else value
        for name, value in sorted(vars(arguments).items())
        if name not in dropped
    }


def inputs_of(arguments: argparse.Namespace, **others) -> dict:
    """What a run reads, for `open_run`: all flags that are paths.

    Args:
        others: flags whose value is a pattern, a name or a directory of more than the run reads → the paths meant.
    """
    paths = {name: value for name, value in vars(arguments).items() if isinstance(value, pathlib.Path)}
    return {name: value for name, value in (paths | others).items() if name not in _NOT_SETTINGS}


def command(main, resumes=False):
    """Runs a recipe's `main` as a program: what may befall a training from outside ends it with one line.

    That is a signal, divergence, a fault of the disk, a lost worker, a damaged input or too little memory.

    Args:
        main: function without arguments.
        resumes: whether the same command resumes a run from its checkpoints.

    The exit status is 130 after SIGINT, 143 after SIGTERM, 1 after an error. Before the program ends, files that are
    half written are removed and a training step is finished and saved; a second signal ends it at once.
    """
    from kbert.training.signals import Interrupted, interrupt, let_signals_kill, take_signals
    from kbert.training.workers import LostWorker, named_losses

    logging.getLogger("kbert").propagate = False  # TensorFlow's absl prints what comes to the root logger, once more
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
