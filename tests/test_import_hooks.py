"""What `import kbert` adds to later imports; the classes in saved files: test_saved_classes.py."""

import importlib.util

import pytest
from helpers.run_python import run_python

PROGRAM = """
import json, os, sys
os.environ["TF_USE_LEGACY_KERAS"] = sys.argv[1]
import kbert
messages = []
for _ in range(2):  # the second time TensorFlow's own error is a RecursionError
    try:
        import tensorflow_text
    except ImportError as error:
        messages.append(str(error))
print(json.dumps(messages))
"""


@pytest.mark.skipif(importlib.util.find_spec("tf_keras") is not None, reason="with tf_keras the import works")
@pytest.mark.parametrize("value, refused", [("1", True), ("True", True), ("0", False)])
def test_legacy_keras_is_named_where_tensorflow_text_cannot_be_imported(value, refused):
    """TensorFlow says "Keras cannot be imported. Check that it is installed", which it is."""
    messages = run_python(PROGRAM, value)
    assert len(messages) == (2 if refused else 0)
    for message in messages:
        assert message.startswith(f"TF_USE_LEGACY_KERAS={value} makes TensorFlow look for Keras 2 (tf_keras)")
        assert message.endswith("unset the variable.")
