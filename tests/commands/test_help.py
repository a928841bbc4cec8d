"""Every command explains itself at once: without TensorFlow and Keras, whose import takes seconds."""

import os
import subprocess
import sys

import pytest
from helpers.paths import ROOT

import kbert
from kbert.commands import COMMANDS, help_text, main

PROGRAM = """
import sys

class Blocked:
    def find_spec(self, name, path, target=None):
        if name in ("tensorflow", "keras"):
            raise ImportError(name + " is imported")

sys.meta_path.insert(0, Blocked())
from kbert.cli import run_command
from kbert.commands import COMMANDS

commands = {f"kbert {word}": command for word, command in COMMANDS.items()}
for name, command in commands.items():
    print("=== " + name)
    try:
        run_command(command, ["--help"], name)
    except ImportError as error:
        print(error)
    except SystemExit as stop:
        print("status", stop.code or 0)
"""


@pytest.fixture(scope="module")
def helps(tmp_path_factory):
    """What each command prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    command = [sys.executable, "-c", PROGRAM]
    away = tmp_path_factory.mktemp("away")
    done = subprocess.run(command, cwd=away, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parts = (part.split("\n", 1) for part in done.stdout.split("=== ")[1:])
    return dict(parts)


def test_help_needs_no_tensorflow(helps):
    assert len(helps) == len(COMMANDS)
    for name, text in helps.items():
        assert f"usage: {name}" in text and text.strip().endswith("status 0"), text
    assert "[UNK] 100" in helps["kbert vocabulary"] and "--size N" in helps["kbert vocabulary"]
    assert "--mask-rate X" in helps["kbert pretrain"] and "--strategy auto|one|" in helps["kbert pretrain"]


def test_every_flag_has_a_sentence(helps):
    """A flag without help ends its line, and the next line is another flag."""
    for name, text in helps.items():
        lines = text.splitlines()
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            is_flag = line.startswith("  --") and "  " not in line.strip()
            assert not is_flag or following.startswith("   "), f"{name}: {line}"


def test_the_list_of_commands(capsys):
    main([])
    assert capsys.readouterr().out == help_text() + "\n"
    assert all(f"\n  {word} " in help_text() for word in COMMANDS)
    main(["--version"])
    assert capsys.readouterr().out == kbert.__version__ + "\n"
    with pytest.raises(SystemExit, match="2"):
        main(["pretrian"])
    assert capsys.readouterr().err == "error: unknown command 'pretrian'. Did you mean `pretrain`?\n"
