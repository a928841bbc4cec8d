"""Verbs are ordinary functions: a signature that type checkers read, a docstring, and a body that one can follow."""

import ast
import importlib.util
import inspect
import json
import subprocess
import sys
import textwrap

import pytest

import kbert
from kbert.cli import make_parser
from kbert.commands import COMMANDS

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
    for task in command.tasks() if command.tasks else [None]:
        flags = make_parser(word, command, task)._actions
        names = [string for flag in flags for string in flag.option_strings or [flag.dest]]
        assert sorted(set(names)) == sorted(names)


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
    }
