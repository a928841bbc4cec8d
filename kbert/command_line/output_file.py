"""A program's --output that is a file: what is checked before any work is done."""

import argparse
import os
import pathlib
from collections.abc import Sequence


def check_output_file(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, *others: pathlib.Path, endings: Sequence[str] = ()
) -> None:
    """The parser's error if --output cannot be written, or if it exists and there is no --overwrite.

    Args:
        others: files that are written next to it, which must not exist either.
        endings: those that --output may have, such as ``(".jsonl",)``; empty: any.
    """
    output = arguments.output
    if endings and output.suffix.lower() not in endings:
        parser.error(f"--output must end in {' or '.join(endings)}. Received: {output}")
    if output.is_dir():
        parser.error(f"--output must be a file. Received: {output}, which is a directory")
    if existing := [path for path in (output, *others) if path.exists() and not arguments.overwrite]:
        parser.error(f"{existing[0]} already exists; --overwrite replaces it")
    parent = next(parent for parent in output.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        parser.error(f"--output cannot be written: {parent} is not a directory in which you may write")
