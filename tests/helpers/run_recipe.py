"""Recipes as tests run them: in this process, or in one of their own."""

import importlib
import json
import os
import subprocess
import sys

from helpers.paths import ROOT
from kbert.cli import run_command
from kbert.commands import COMMANDS

RECIPES = ROOT / "recipes"
FINETUNED = {"model", "metrics.json", "settings.json", "inputs.json", "history.jsonl", "logs"}


def import_recipe(name):
    """The module recipes/<name>.py."""
    if str(RECIPES) not in sys.path:
        sys.path.insert(0, str(RECIPES))
    return importlib.import_module(name)


def as_flags(**given):
    """Arguments of a command: ``size=8, cased=True, layers=[1, 2]`` are ``--size 8 --cased --layers 1 2``."""
    arguments = []
    for name, value in given.items():
        values = value if isinstance(value, list) else [] if value is True else [value]
        arguments += [f"--{name.replace('_', '-')}", *values]
    return tuple(arguments)


def run_recipe(name, *arguments):
    """Runs a recipe here; starting TensorFlow anew would take longer than most tests."""
    return _run(import_recipe(name).COMMAND, arguments, name)


def run_kbert(word, *arguments):
    """Runs a command of ``kbert`` here; returns the result of its verb."""
    return _run(COMMANDS[word], arguments, f"kbert {word}")


def _run(command, arguments, prog):
    try:
        return run_command(command, [str(argument) for argument in arguments], prog)
    except SystemExit as stop:
        if stop.code in (130, 143):  # whoever stopped the tests means them all
            raise KeyboardInterrupt from stop
        raise


def run_kbert_alone(*arguments, **environment):
    """Runs ``kbert`` in a process of its own; returns what it printed and logged, and raises if it failed."""
    return _run_alone([sys.executable, "-m", "kbert", *map(str, arguments)], environment)


def run_recipe_alone(name, *arguments, **environment):
    """Runs a recipe in a process of its own; returns what it printed and logged, and raises if it failed."""
    return _run_alone([sys.executable, str(RECIPES / f"{name}.py"), *map(str, arguments)], environment)


def _run_alone(command, environment):
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)} | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def read_json(path):
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
