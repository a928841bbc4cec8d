"""The command line flags that recipes share: each has one name, one meaning and one check."""

import argparse
import json
import math
import pathlib
import sys

from kbert.training.console import log_to_console
from kbert.training.program import plain_errors
from kbert.training.program import run_program as command

__all__ = ["command", "plain_errors"]

log_to_console()  # before TensorFlow is imported


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


def share(text: str) -> float:
    """A number in [0, 1]."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number in [0, 1]. Received: {text}")
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
        raise argparse.ArgumentTypeError(f"expected a directory. Received: {text!r}, which is not one")
    return pathlib.Path(text)


def file(text: str) -> pathlib.Path:
    """A file that exists."""
    if not pathlib.Path(text).is_file():
        raise argparse.ArgumentTypeError(f"expected a file. Received: {text!r}, which is not one")
    return pathlib.Path(text)


def named_column(text: str) -> tuple[str, int]:
    """NAME=NUMBER, a column of a file of words."""
    name, equals, number = text.rpartition("=")
    if not name or not equals or not number.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError(f"expected NAME=NUMBER, such as pos=1. Received: {text}")
    return name, int(number)


def steps_to_profile(text: str) -> tuple[int, int]:
    """The first and the last step, from one number or from two with a colon between them."""
    from kbert.inspection.board.profiler import profiled_steps

    try:
        return profiled_steps(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_FLAGS = {
    "init": dict(
        metavar="SOURCE",
        type=source,
        help="model to start from: a kbert directory, the output of a recipe, a checkpoint of Google, Hugging Face or "
        "KerasHub, or a name on the hub, such as google-bert/bert-base-uncased; RUN@STEP: a checkpoint of a run",
    ),
    "output": dict(
        metavar="DIR",
        type=pathlib.Path,
        required=True,
        help="where everything goes; an unfinished run of the same settings there is resumed",
    ),
    "epochs": dict(metavar="N", type=positive_float, help="passes over the training examples"),
    "steps": dict(metavar="N", type=positive_int, help="weight updates, instead of --epochs"),
    "batch-size": dict(metavar="N", type=positive_int, default=32, help="examples an update, over all replicas"),
    "learning-rate": dict(metavar="X", type=positive_float, help="the peak, reached at the end of the warm-up"),
    "sequence-length": dict(
        metavar="N",
        type=positive_int,
        default=128,
        help="tokens of a packed text or pair; longer ones are truncated",
    ),
    "seed": dict(metavar="N", type=int, default=0, help="decides new weights, dropout and the order of the examples"),
    "strategy": dict(
        choices=("auto", "one", "mirrored", "multiworker", "tpu"),
        default="auto",
        help="how the devices of this machine share the work",
    ),
    "logical-cpus": dict(
        metavar="N",
        type=positive_int,
        help="split the CPU into N devices, to try out --strategy mirrored without GPUs",
    ),
    "precision": dict(
        choices=("auto", "float32", "mixed_bfloat16", "mixed_float16"),
        default="auto",
        help="of the arithmetic; weights are float32 always",
    ),
    "xla": dict(
        choices=("auto", "on", "off"),
        default="auto",
        help="compile the step; auto: on one GPU, and on JAX",
    ),
    "keep": dict(choices=("best", "last"), default="best", help="the weights that scored best on dev, or the last"),
    "log-dir": dict(metavar="DIR", type=pathlib.Path, help="TensorBoard logs; default: logs/ in the output"),
    "profile": dict(
        metavar="STEPS",
        type=steps_to_profile,
        help="record where the time of these steps goes, as 20:25, for TensorBoard",
    ),
    "json": dict(action="store_true", help="print the metrics as one JSON object on the last line"),
    "overwrite": dict(action="store_true", help="delete what another run left in --output"),
    "dry-run": dict(action="store_true", help="say how large the training would be, and train nothing"),
}


def add_flags(parser: argparse.ArgumentParser, *names: str, **overrides: dict) -> None:
    """Adds shared flags by name, in that order; an override changes the `add_argument` arguments of one flag.

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


def add_finetuning_flags(parser: argparse.ArgumentParser, **overrides: dict) -> None:
    """The flags of every fine-tuning, for `finetune`; `overrides` as for `add_flags`."""
    own = {"init": {"required": True}, "epochs": {"default": 3.0}, "learning_rate": {"default": 5e-5}}
    add_flags(
        parser,
        *("init", "output", "epochs", "steps", "batch-size", "learning-rate", "sequence-length", "seed", "keep"),
        **{name: own.get(name, {}) | overrides.get(name, {}) for name in own | overrides},
    )
    add = parser.add_argument
    add("--evaluate-every", metavar="N", type=epoch_or_int, default="epoch", help="steps, or epoch (default: epoch)")
    add("--patience", metavar="N", type=positive_int, help="stop after N evaluations without a better one")
    add("--dropout", metavar="X", type=rate, help="instead of the dropout rates of --init")
    add("--bias-correction", action="store_true", help="Adam as published; BERT was trained without its correction")
    add(
        "--layer-decay",
        metavar="X",
        type=positive_float,
        help="factor of the learning rate from a layer to the next lower",
    )
    accumulate = "compute an update in N parts on every replica, for less memory (default: 1)"
    add("--accumulate", metavar="N", type=positive_int, default=1, help=accumulate)
    add("--group-by-length", action="store_true", help="batches of texts of like length: faster, less random")
    add("--bilstm", action="store_true", help="a new BiLSTM under the head: section 5.1, for a left-to-right model")
    add("--random-weights", action="store_true", help="only architecture and vocabulary of --init")
    add("--checkpoint-every", metavar="STEPS", type=positive_int, default=200, help="(default: 200)")
    add_flags(
        parser,
        *("strategy", "logical-cpus", "precision", "xla", "log-dir", "profile", "json", "overwrite", "dry-run"),
    )


def epoch_or_int(text: str) -> int | str:
    """The word epoch, or a whole number of at least 1."""
    return text if text == "epoch" else positive_int(text)


_OPTIONS = (
    *("epochs", "steps", "batch_size", "learning_rate", "sequence_length", "seed", "keep", "evaluate_every"),
    *(
        "patience",
        "dropout",
        "bias_correction",
        "layer_decay",
        "accumulate",
        "group_by_length",
        "bilstm",
        "random_weights",
        "checkpoint_every",
    ),
    *("strategy", "logical_cpus", "precision", "xla", "log_dir", "profile", "overwrite"),
)


def finetuning_options(arguments: argparse.Namespace) -> dict:
    """The flags of `add_finetuning_flags`, as `kbert.finetune` takes them."""
    return {name: getattr(arguments, name) for name in _OPTIONS}


def finetune(arguments: argparse.Namespace, recipe: str, read):
    """`kbert.finetune` with the flags of `add_finetuning_flags`; None if --dry-run only estimates the run.

    Args:
        recipe: file name of the recipe.
        read: function of the arguments that returns task, training examples and dev examples. Errors in these, in the
            model or in --output are printed as one line; errors in training keep their traceback.
    """
    from kbert.tasks.finetuning import Finetuning
    from kbert.training.dry_run import format_estimate

    with plain_errors():
        task, train, dev = read(arguments)
        options = finetuning_options(arguments)
        finetuning = Finetuning(arguments.init, task, train, dev, arguments.output, recipe=recipe, **options)
        if arguments.dry_run:
            estimate = finetuning.estimate()
            print(f"{estimate['examples']:,} examples in {estimate['windows']:,} rows\n{format_estimate(estimate)}")
            return None
        finetuning.open()
    return finetuning.run()


def report(arguments: argparse.Namespace, metrics: dict) -> None:
    """Prints where the model is and how long it took; with --json the metrics as the last line."""
    print(f"{metrics['minutes']:.1f} minutes; the model is in {arguments.output / 'model'}")
    if arguments.json:
        print(json.dumps(metrics))


def read_train_and_dev(arguments: argparse.Namespace, task):
    """--train, and --dev or a fraction of --train, the same for every --seed."""
    train = task.read(arguments.train)
    return (train, task.read(arguments.dev)) if arguments.dev else train.split(arguments.dev_share)


def add_example_flags(parser: argparse.ArgumentParser, what: str) -> None:
    """--train, --dev and --dev-share, for `read_train_and_dev`; `what` the files are."""
    parser.add_argument("--train", metavar="FILE", type=file, required=True, help=f"{what} to train on")
    parser.add_argument("--dev", metavar="FILE", type=file, help="others, to evaluate on")
    parser.add_argument(
        "--dev-share", metavar="X", type=rate, default=0.1, help="of --train, held out without --dev (default: 0.1)"
    )


def add_choice_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that say how multiple-choice questions are read; their label column is the recipe's own."""
    add = parser.add_argument
    add("--format", choices=("swag", "dream", "table"), default="table", help="of multiple choice (default: table)")
    add("--prompt-column", metavar="NAME", default="prompt", help="what choices belong to (default: prompt)")
    add(
        "--choice-columns",
        metavar="NAME",
        nargs="+",
        default=["choices"],
        help="a column for each choice, or a .jsonl's key of lists (default: choices)",
    )


def add_tag_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that say how columns of tagged words are read."""
    add = parser.add_argument
    add("--tag-column", metavar="N", type=int, default=-1, help="of the tag, from 0 or from the end (default: -1)")
    add("--scheme", choices=("iob1", "iob2", "bioes", "bilou"), help="of the tags (default: recognised)")


def number_or_off(text: str) -> float | str:
    """A finite number, or the word off."""
    if text != "off" and not abs(float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number, or off. Received: {text}")
    return text if text == "off" else float(text)


def add_stored_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that replace, or turn off, what is stored with a model about its answers; for `stored_options`."""
    parser.add_argument(
        "--window-pooling",
        choices=("mean", "max", "off"),
        help="of long texts of a classifier or regressor: pool the answers to their windows, or truncate them: off "
        "(default: the model's)",
    )
    parser.add_argument(
        "--null-threshold",
        metavar="X",
        type=number_or_off,
        help='of questions: by how much "no answer" must beat the best answer; off: each is answered (default: the '
        "model's)",
    )


def stored_options(arguments: argparse.Namespace) -> dict:
    """The flags of `add_stored_flags` that are given, as `kbert.build_pipeline` takes them."""
    given = {"window_pooling": arguments.window_pooling, "null_threshold": arguments.null_threshold}
    return {name: None if value == "off" else value for name, value in given.items() if value is not None}


def parse_with_beam_flags(parser: argparse.ArgumentParser, argv=None) -> argparse.Namespace:
    """Adds --runner and --shared, and parses; what follows ``--`` becomes ``beam_flags``, a list of strings."""
    runner = "an Apache Beam runner, such as DirectRunner; its flags follow -- (default: this process alone)"
    parser.add_argument("--runner", metavar="NAME", help=runner)
    shared = "with --runner, a directory that all workers see (default: one beside or within --output)"
    parser.add_argument("--shared", metavar="DIR", type=pathlib.Path, help=shared)
    argv = list(sys.argv[1:] if argv is None else argv)
    end = argv.index("--") if "--" in argv else len(argv)
    arguments = parser.parse_args(argv[:end])
    arguments.beam_flags = argv[end + 1 :]
    if arguments.runner is None and (arguments.beam_flags or arguments.shared):
        parser.error("--shared, and flags after --, need --runner")
    return arguments


_NOT_SETTINGS = ("output", "overwrite", "json", "log_dir", "profile", "log_every", "checkpoint_every", "dry_run")


def settings_of(arguments: argparse.Namespace, *without: str) -> dict:
    """What defines a run, as JSON: all flags except those on where and how often it writes."""
    dropped = {*_NOT_SETTINGS, *without}
    kept = {name: value for name, value in sorted(vars(arguments).items()) if name not in dropped}
    return json.loads(json.dumps(kept, default=str))


def inputs_of(arguments: argparse.Namespace, **others) -> dict:
    """What a run reads, for `open_run`: all flags that are paths, and models given by their names on the hub.

    Args:
        others: flags whose value is a pattern, a name, or a directory with other files too → the paths that are read.
    """
    paths = {
        name: value
        for name, value in vars(arguments).items()
        if isinstance(value, pathlib.Path) or (name in ("init", "model") and value)
    }
    return {name: value for name, value in (paths | others).items() if name not in _NOT_SETTINGS}
