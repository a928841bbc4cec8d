"""What a program shows on its console: kbert's lines once, TensorFlow's start-up lines not at all."""

import logging
import os
import subprocess
import sys

import pytest
from helpers.paths import ROOT

from kbert.training.console import log_to_console

# TensorFlow's lines as 2.21 writes them, beside one that has to be seen.
FAKE = """
import os
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\\n")
os.write(2, b"I0000 00:00:1795349305.233900   11800 port.cc:153] oneDNN custom operations are on.\\n")
os.write(2, b"a warning of somebody else\\n")
"""


def run(code, path="", **environment):
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"} | environment
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), str(ROOT)]))
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def test_the_console_has_no_start_up_lines_of_tensorflow():
    """Whoever imports it, and also after somebody has looked whether it is there."""
    find = "import importlib.util, kbert; importlib.util.find_spec('tensorflow')"
    done = run(f"{find}; kbert.BertTokenizer; import tensorflow as tf; print(tf.constant(1).numpy())")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


@pytest.mark.parametrize("level, shown", [("", False), ("0", True)])
def test_start_up_lines_are_shown_on_request_and_others_always(tmp_path, level, shown):
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").write_text(FAKE)
    environment = {"TF_CPP_MIN_LOG_LEVEL": level} if level else {}
    done = run("import kbert, tensorflow", tmp_path, **environment)
    assert "a warning of somebody else" in done.stderr
    assert ("oneDNN" in done.stderr, "absl" in done.stderr) == (shown, shown)


def test_an_error_of_the_import_is_shown(tmp_path):
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").write_text(FAKE + "raise ImportError('undefined symbol')\n")
    done = run("import kbert, tensorflow", tmp_path)
    assert done.returncode == 1
    assert "somebody else" in done.stderr and "ImportError: undefined symbol" in done.stderr


def test_lines_come_once(capsys, monkeypatch):
    root, stream = logging.getLogger(), logging.StreamHandler()  # as an import of TensorFlow may leave one
    monkeypatch.setattr(root, "handlers", [*root.handlers, stream])
    log_to_console()
    log_to_console()
    logging.getLogger("kbert").info("step 1/2")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "step 1/2\n")
