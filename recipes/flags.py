"""The command line flags that recipes share: each has one name, one meaning and one check."""

import argparse
import dataclasses
import json
import pathlib
import sys

from kbert.training.argument_types import (
    directory,
    epoch_or_int,
    file,
    named_column,
    number_or_off,
    positive_float,
    positive_int,
    rate,
    share,
    source,
    stddev_or_scaled,
)
from kbert.training.console import log_to_console
from kbert.training.program import plain_errors
from kbert.training.program import run_program as command
from kbert.training.run_arguments import inputs_of, settings_of

__all__ = ["command", "directory", "file", "inputs_of", "named_column", "plain_errors", "rate", "settings_of"]
__all__ += ["share", "source", "stddev_or_scaled"]

log_to_console()  # before TensorFlow is imported


def steps_to_profile(text: str) -> tuple[int, int]:
    """The first and the last step, from one number or from two with a colon between them."""
    from kbert.inspection.board.profiler import profiled_steps

    try:
        return profiled_steps(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _number(help, type=positive_int, metavar="N", **others):
    return dict(metavar=metavar, type=type, help=help, **others)


def _choice(help, *choices, **others):
    return dict(choices=choices, help=help, **others)


def _switch(help, action="store_true", **others):
    return dict(action=action, help=help, **others)


def _path(help, type=file, metavar="FILE", **others):
    return dict(metavar=metavar, type=type, help=help, **others)


def _name(help, **others):
    return dict(metavar="NAME", help=help, **others)


_FLAGS = {
    # What is read
    "corpus": dict(
        nargs="+",
        metavar="GLOB",
        help="text files, plain or compressed, or tar or zip archives of them; put patterns in quotes",
    ),
    "records": _path("directory that prepare_records.py wrote", directory, "DIR"),
    "vocab": _path("the vocabulary, a vocab.txt", dest="vocabulary"),
    "cased": _switch("do not lower-case the text or strip accents", "store_false", dest="lowercase"),
    "format": _choice(
        "format of the corpus; auto: detected from the content of each file",
        "auto",
        "lines",
        "prose",
        "wikiextractor",
        default="auto",
    ),
    "language": dict(default="en", help="language of the corpus, for splitting prose into sentences"),
    "held-out": _number("share of the corpus' documents that is used for evaluation only", rate, "SHARE", default=0.01),
    "train": _path("examples to train on", required=True),
    "dev": _path("examples to evaluate on"),
    "dev-share": _number("without --dev: share of --train that is held out to evaluate on", rate, "X", default=0.1),
    "train-sentences": _number("train on the first N sentences only"),
    "tag-column": _number("number of the tag's column, from 0, or negative: from the end", int, default=-1),
    "scheme": _choice("tagging scheme (default: recognised from the tags)", "iob1", "iob2", "bioes", "bilou"),
    "prompt-column": _name("column of the prompt", default="prompt"),
    # Models
    "init": dict(
        metavar="SOURCE",
        type=source,
        help="the model to start from: a kbert directory, the output of a recipe, a checkpoint of Google, Hugging Face "
        "or KerasHub, or a name on the hub, such as google-bert/bert-base-uncased; RUN@STEP is a checkpoint of a run",
    ),
    "model": dict(
        metavar="SOURCE", type=source, required=True, help="the model: a path or name as for --init of other recipes"
    ),
    "size": _choice("size of a new model (default: tiny)", "tiny", "mini", "small", "medium", "base", "large"),
    "dropout": _number("dropout rate (default: the model's own, 0.1 for a new one)", rate, "X"),
    "sequence-length": _number("tokens of a row; longer texts and pairs are truncated", default=128),
    "top-k": _number("number of tokens to propose for each [MASK] (default: as stored with the model)"),
    "window-pooling": _choice(
        "for classifiers and regressors: how to pool the answers to the windows of a long text; off truncates the text "
        "(default: as stored with the model)",
        *("mean", "max", "off"),
    ),
    "null-threshold": _number(
        'for questions: by how much the score of "no answer" must exceed that of the best span; off: always '
        "answer (default: as stored with the model)",
        number_or_off,
        "X",
    ),
    # The examples of a pre-training
    "max-predictions": _number("the maximum number of masks in a row (default: 20 at length 128, 80 at 512)"),
    "whole-word": _switch("mask all pieces of a word together (Google's release of May 2019)"),
    "no-next-sentence": _switch(
        'no next sentence prediction: the "No NSP" ablation of section 5.1', "store_false", dest="next_sentence"
    ),
    "packed": _switch(
        "let several short pairs share a row, or never (default: if rows then hold at least 1.05 times as much text)",
        argparse.BooleanOptionalAction,
    ),
    "fill-rows": _switch("pack rows and fill them with further short pairs, for documents shorter than a row"),
    "evaluation-batches": _number("number of batches made from the held-out documents", default=50),
    # The training
    "epochs": _number("passes over the training examples", positive_float),
    "steps": _number("number of weight updates, instead of --epochs"),
    "batch-size": _number("examples per update, over all replicas", default=32),
    "accumulate": _number("compute each update in N parts on every replica, to save memory", default=1),
    "learning-rate": _number("peak learning rate, at the end of the warm-up", positive_float, "X"),
    "warmup-steps": _number("steps of rising learning rate (default: a tenth of --steps, at most 10,000)"),
    "layer-decay": _number("ratio of a layer's learning rate to that of the layer above it", positive_float, "X"),
    "seed": _number("determines new weights, dropout and the order of the examples", int, default=0),
    "evaluate-every": _number("steps between evaluations, or epoch", epoch_or_int, default="epoch"),
    "patience": _number("stop after N evaluations without improvement"),
    "keep": _choice("which weights to keep: those that score best on dev, or the last", "best", "last", default="best"),
    "bias-correction": _switch("use Adam's bias correction, which BERT's optimizer lacks"),
    "group-by-length": _switch("put texts of similar length into one batch: faster, but batches are less random"),
    "bilstm": _switch("put a new BiLSTM under the head, as section 5.1 does for a left-to-right model"),
    "random-weights": _switch("take only the architecture and vocabulary of --init"),
    # The machine
    "strategy": _choice(
        "how to divide the work among devices, or (multiworker) among machines",
        *("auto", "one", "mirrored", "multiworker", "tpu"),
        default="auto",
    ),
    "logical-cpus": _number("split the CPU into N devices, to try --strategy mirrored without GPUs"),
    "precision": _choice(
        "precision of the computation; weights are always float32",
        *("auto", "float32", "mixed_bfloat16", "mixed_float16"),
        default="auto",
    ),
    "xla": _choice("whether XLA compiles the step; auto: on one GPU, and on JAX", "auto", "on", "off", default="auto"),
    # What is written
    "output": _path(
        "directory for all results; an unfinished run with the same settings in it is resumed",
        pathlib.Path,
        "DIR",
        required=True,
    ),
    "log-dir": _path("directory of the TensorBoard logs (default: logs/ in --output)", pathlib.Path, "DIR"),
    "log-every": _number(
        "steps between log lines (default: the divisor of --checkpoint-every nearest to 100)", metavar="STEPS"
    ),
    "checkpoint-every": _number(
        "steps between checkpoints, from which a killed run resumes", metavar="STEPS", default=200
    ),
    "profile": _number("profile these steps, such as 20:25, for TensorBoard", steps_to_profile, "STEPS"),
    "json": _switch("print the metrics as one JSON object on the last line"),
    "overwrite": _switch("delete the results of another run in --output"),
    "dry-run": _switch("estimate steps, memory and time, and train nothing"),
}
MACHINE = ("strategy", "logical-cpus", "precision")


def add_flags(parser, *names: str, **overrides: dict) -> None:
    """Adds shared flags by name, in that order; an override changes the `add_argument` arguments of one flag.

    Args:
        parser: an `argparse.ArgumentParser`, or a group of one.

    Example::

        add_flags(parser, "init", "output", "epochs", init={"required": True}, epochs={"default": 3.0})
    """
    unknown = set(overrides) - {name.replace("-", "_") for name in names}
    if unknown:
        raise ValueError(f"Overrides are for flags that are added ({names}). Received: {sorted(unknown)}")
    for name in names:
        arguments = {**_FLAGS[name], **overrides.get(name.replace("-", "_"), {})}
        if arguments.get("default") is not None:
            arguments["help"] += f" (default: {arguments['default']})"
        parser.add_argument(f"--{name}", **arguments)


def add_finetuning_flags(parser: argparse.ArgumentParser, **overrides: dict) -> None:
    """The flags of every fine-tuning, for `finetune`; `overrides` as for `add_flags`."""
    own = {"init": {"required": True}, "epochs": {"default": 3.0}, "learning_rate": {"default": 5e-5}}
    add_flags(
        parser,
        *("init", "output", "epochs", "steps", "batch-size", "learning-rate", "sequence-length", "seed", "keep"),
        *("evaluate-every", "patience", "dropout", "bias-correction", "layer-decay", "accumulate", "group-by-length"),
        *("bilstm", "random-weights", "checkpoint-every", *MACHINE, "xla"),
        *("log-dir", "profile", "json", "overwrite", "dry-run"),
        **{name: own.get(name, {}) | overrides.get(name, {}) for name in own | overrides},
    )


def finetuning_options(arguments: argparse.Namespace) -> dict:
    """The flags of `add_finetuning_flags`, as `kbert.finetune` takes them."""
    from kbert.tasks.finetuning_options import FinetuningOptions

    names = {field.name for field in dataclasses.fields(FinetuningOptions)} | {"log_dir", "profile", "overwrite"}
    return {name: value for name, value in vars(arguments).items() if name in names}


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
    add_flags(parser, "train", "dev", "dev-share", train={"help": f"{what} to train on"})


def add_choice_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that say how multiple-choice questions are read; their label column is the recipe's own."""
    add = parser.add_argument
    add(
        "--format",
        choices=("swag", "dream", "table"),
        default="table",
        help="format of multiple-choice files (default: table)",
    )
    add_flags(parser, "prompt-column")
    about = "a column for each choice, or the key of a .jsonl that holds lists (default: choices)"
    add("--choice-columns", metavar="NAME", nargs="+", default=["choices"], help=about)


def stored_options(arguments: argparse.Namespace) -> dict:
    """The flags of `add_stored_flags` that are given, as `kbert.build_pipeline` takes them."""
    given = {"window_pooling": arguments.window_pooling, "null_threshold": arguments.null_threshold}
    return {name: None if value == "off" else value for name, value in given.items() if value is not None}


def parse_with_beam_flags(parser: argparse.ArgumentParser, argv=None) -> argparse.Namespace:
    """Adds --runner and --shared, and parses; what follows ``--`` becomes ``beam_flags``, a list of strings."""
    runner = "run on this Apache Beam runner, such as DirectRunner, whose flags follow -- (default: in this process)"
    parser.add_argument("--runner", metavar="NAME", help=runner)
    shared = "with --runner: a directory that all workers see (default: one in or next to --output)"
    parser.add_argument("--shared", metavar="DIR", type=pathlib.Path, help=shared)
    argv = list(sys.argv[1:] if argv is None else argv)
    end = argv.index("--") if "--" in argv else len(argv)
    arguments = parser.parse_args(argv[:end])
    arguments.beam_flags = argv[end + 1 :]
    if arguments.runner is None and (arguments.beam_flags or arguments.shared):
        parser.error("--shared, and flags after --, need --runner")
    return arguments
