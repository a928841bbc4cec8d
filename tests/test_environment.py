"""Environment variables that TensorFlow reads when it is imported."""

import importlib.util
import os
import signal
import subprocess
import sys

import pytest
from helpers.paths import ROOT
from helpers.run_python import run_python

LEGACY = """
import json, os, sys
os.environ["TF_USE_LEGACY_KERAS"] = sys.argv[1]
import kbert
messages = []
for _ in range(2):  # the second time TensorFlow's own error is a RecursionError
    try:
        kbert.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])(["a"])
    except ImportError as error:
        messages.append(str(error))
print(json.dumps(messages))
"""


@pytest.mark.skipif(importlib.util.find_spec("tf_keras") is not None, reason="with tf_keras the import works")
@pytest.mark.parametrize("value, refused", [("1", True), ("True", True), ("0", False)])
def test_legacy_keras_is_named_where_tensorflow_text_cannot_be_imported(value, refused):
    """TensorFlow says "Keras cannot be imported. Check that it is installed", which it is."""
    messages = run_python(LEGACY, value)
    assert len(messages) == (2 if refused else 0)
    for message in messages:
        assert message.startswith(f"TF_USE_LEGACY_KERAS={value} makes TensorFlow look for Keras 2 (tf_keras)")
        assert message.endswith("unset the variable.")


@pytest.mark.parametrize("level, expected", [({}, "3"), ({"TF_CPP_MIN_LOG_LEVEL": "0"}, "0")])
def test_the_log_of_tensorflow_is_off_unless_it_is_turned_on(tmp_path, level, expected):
    """What native code writes before it aborts the import is shown either way."""
    (tmp_path / "tensorflow").mkdir()
    program = "import os\nos.write(2, os.environ['TF_CPP_MIN_LOG_LEVEL'].encode() + b' SIGILL')\nos.abort()"
    (tmp_path / "tensorflow/__init__.py").write_text(program)
    environment = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"} | level
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", "import kbert, tensorflow"], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (-signal.SIGABRT, f"{expected} SIGILL")
