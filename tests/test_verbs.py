"""Verbs are ordinary functions: a signature that type checkers read, a docstring, and a body that one can follow."""

import ast
import importlib.util
import inspect
import json
import subprocess
import sys
import textwrap
from typing import Annotated

import pytest

import kbert
from kbert.cli import make_parser
from kbert.commands import COMMANDS
from kbert.finetuning import finetune_glue, finetune_grid
from kbert.options import NOT_RECORDED

VERBS = {f"kbert {word}": command.verb for word, command in COMMANDS.items()}
PYTHON = {name: getattr(kbert, name) for name in ("audit", "evaluate", "export", "finetune", "inspect", "pretrain")}
LONGEST = 80  # lines of a body, without empty ones


@pytest.mark.parametrize("name", [*VERBS, *PYTHON])
def test_a_verb_has_a_body_that_one_can_follow(name):
    function = inspect.unwrap((VERBS | PYTHON)[name])
    source = textwrap.dedent(inspect.getsource(function))
    (node,) = ast.parse(source).body
    docstring, *statements = node.body
    assert ast.get_docstring(node) and statements
    lines = source.splitlines()[docstring.end_lineno : node.end_lineno]
    assert len([line for line in lines if line.strip()]) <= LONGEST


@pytest.mark.parametrize("word", COMMANDS)
def test_every_flag_has_a_name_of_its_own(word):
    command = COMMANDS[word]
    for task in command.tasks().values() if command.tasks else [None]:
        flags = make_parser(word, command, command.flags(task))._actions
        names = [string for flag in flags for string in flag.option_strings or [flag.dest]]
        assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("function", (finetune_grid, finetune_glue), ids=lambda function: function.__name__)
def test_the_options_of_a_grid_are_those_of_finetune(function):
    own, options = inspect.signature(function).parameters, inspect.signature(kbert.finetune).parameters
    for name in own.keys() & options.keys() - {"source", "task", "train", "dev", "output", "epochs"}:
        assert own[name].default == options[name].default, name
        assert _unmarked(own[name].annotation) == _unmarked(options[name].annotation), name


def test_a_grid_lacks_no_option_of_finetune():
    lacking = inspect.signature(kbert.finetune).parameters.keys() - inspect.signature(finetune_grid).parameters.keys()
    assert lacking == {"learning_rate", "batch_size", "seed", "log_dir", "profile", "reuse"}


def _unmarked(annotation):
    """An annotation without `NOT_RECORDED`, which only runs need."""
    marked = Annotated[annotation, NOT_RECORDED]  # makes a class in quotes a ForwardRef
    return marked.__origin__, [mark for mark in marked.__metadata__ if mark != NOT_RECORDED]


SCRIPT = """
import kbert

task = kbert.tasks.Classification(text="review", label="stars")
run = kbert.finetune("runs/tiny", task, "reviews.csv", 0.1, "runs/reviews", epochs=4, learning_rate=3e-5)
score: float = run.metrics["dev"]["accuracy"]
kbert.finetune("runs/tiny", task, "reviews.csv", 0.1, epochs="four")
kbert.finetune("runs/tiny", task, "reviews.csv", 0.1, epoch=4)
kbert.pretrain("records", steps="many")
kbert.export(run.pipeline, "saved_models/reviews", frozen_weight=True)
kbert.pretrain("records", step=1000)
kbert.pretrain("records", steps=1000, phases=128)
grid = kbert.finetuning.finetune_grid("runs/tiny", task, "reviews.csv", 0.1, "runs/grid", seeds=(0, 1), patience=2)
kbert.finetuning.finetune_grid("runs/tiny", task, "reviews.csv", 0.1, "runs/grid", patiance=2)
kbert.finetuning.finetune_grid("runs/tiny", task, "reviews.csv", 0.1, "runs/grid", learning_rate=3e-5)
kbert.finetuning.finetune_grid("runs/tiny", task, "reviews.csv", 0.1, "runs/grid", keep="first")
"""


@pytest.mark.parity
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="needs pyright[nodejs]")
def test_a_type_checker_reports_wrong_types_and_names(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "pyrightconfig.json").write_text("{}")  # or pyright looks for one in the folders above
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    errors = {
        (error["range"]["start"]["line"] + 1, error["rule"]) for error in json.loads(done.stdout)["generalDiagnostics"]
    }
    assert errors == {
        (7, "reportArgumentType"),
        (8, "reportCallIssue"),
        (9, "reportArgumentType"),
        (10, "reportCallIssue"),
        (11, "reportCallIssue"),
        (12, "reportArgumentType"),
        (14, "reportCallIssue"),
        (15, "reportCallIssue"),
        (16, "reportArgumentType"),
    }
