"""What the arguments of a program say of its run: the settings that define it, and the files that it reads."""

import argparse
import json
import pathlib

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
