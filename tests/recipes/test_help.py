"""Every recipe explains itself alone and at once: without TensorFlow and Keras, whose import takes seconds."""

import os
import subprocess
import sys

import pytest
from helpers.paths import ROOT

RECIPES = sorted(path.name for path in (ROOT / "recipes").glob("*.py"))
PROGRAM = """
import runpy, sys

class Blocked:
    def find_spec(self, name, path, target=None):
        if name in ("tensorflow", "keras"):
            raise ImportError(name + " is imported")

sys.meta_path.insert(0, Blocked())
for recipe in sys.argv[1:]:
    sys.argv = [recipe, "--help"]
    print("=== " + recipe)
    try:
        runpy.run_path(recipe, run_name="__main__")
    except ImportError as error:
        print(error)
    except SystemExit as stop:
        print("status", stop.code or 0)
"""


@pytest.fixture(scope="module")
def helps(tmp_path_factory):
    """What each recipe prints."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'recipes'}", "COLUMNS": "120"}
    command = [sys.executable, "-c", PROGRAM, *(str(ROOT / "recipes" / name) for name in RECIPES)]
    away = tmp_path_factory.mktemp("away")
    done = subprocess.run(command, cwd=away, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parts = (part.split("\n", 1) for part in done.stdout.split("=== ")[1:])
    return {path.rpartition("/")[2]: text for path, text in parts}


def test_help_needs_no_tensorflow_and_has_an_example(helps):
    for recipe in RECIPES:
        assert f"python recipes/{recipe}" in helps[recipe] and helps[recipe].strip().endswith("status 0")
        assert "usage: " in helps[recipe]
    assert "[UNK] 100" in helps["learn_vocabulary.py"]
    assert all(f"--{name}" in helps["learn_vocabulary.py"] for name in "corpus size output cased overwrite".split())
    assert "Tokenise a corpus once" in helps["prepare_records.py"] and "--held-out SHARE" in helps["prepare_records.py"]


def test_help_fits_in_120_columns(helps):
    """As an example does not whose line ends in a single backslash: to Python that joins two lines of a string."""
    assert [line for text in helps.values() for line in text.splitlines() if len(line) > 120] == []
