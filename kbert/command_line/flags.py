"""Adds shared flags to a parser, and reads them."""

import argparse
import pathlib
import sys

from kbert.command_line.flag_table import FLAGS


class _Parser(argparse.ArgumentParser):
    """Shows an error as one line like all others, not below the usage, which is longer than a screen."""

    def error(self, message):
        self.exit(2, f"error: {message}\n({self.prog} --help describes all flags)\n")


def make_parser(description: str) -> argparse.ArgumentParser:
    """A parser whose help begins with the docstring of the program, not wrapped again; flags cannot be abbreviated."""
    return _Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)


def add_flags(parser, *names: str, **overrides: dict) -> None:
    """Adds shared flags by name, in that order; an override changes the `add_argument` arguments of one flag.

    Args:
        parser: an `argparse.ArgumentParser`, or a group of one.

    Raises:
        ValueError: an override for a flag that is not added.

    Example::

        add_flags(parser, "init", "output", "epochs", init={"required": True}, epochs={"default": 3})
    """
    unknown = set(overrides) - {name.replace("-", "_") for name in names}
    if unknown:
        raise ValueError(f"Overrides are for flags that are added ({names}). Received: {sorted(unknown)}")
    for name in names:
        arguments = {**FLAGS[name], **overrides.get(name.replace("-", "_"), {})}
        if arguments.get("default") is not None:
            default = arguments["default"]
            shown = " ".join(map(str, default)) if isinstance(default, list) else default
            arguments["help"] += f" (default: {shown})"
        parser.add_argument(f"--{name}", **arguments)


def given(arguments: argparse.Namespace, *names: str) -> dict:
    """Those of the arguments that are not None."""
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def add_example_flags(parser: argparse.ArgumentParser, what: str) -> None:
    """--train, --dev and --dev-share, for `read_train_and_dev`; `what` the files are."""
    add_flags(parser, "train", "dev", "dev-share", train={"help": f"{what} to train on"})


def stored_options(arguments: argparse.Namespace) -> dict:
    """--window-pooling and --null-threshold as `kbert.build_pipeline` takes them, where they are given."""
    stored = given(arguments, "window_pooling", "null_threshold")
    return {name: None if value == "off" else value for name, value in stored.items()}


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
