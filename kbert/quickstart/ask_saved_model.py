"""Runs a SavedModel in a program that imports TensorFlow but not kbert."""

import subprocess
import sys

_PROGRAM = """
import sys, tensorflow as tf, tensorflow_text  # tensorflow_text: registers two ops; kbert is not imported
answer = tf.saved_model.load(sys.argv[1]).signatures["serving_default"](text=tf.constant(sys.argv[2:]))
for text, label, p in zip(sys.argv[2:], answer["label"].numpy(), answer["probabilities"].numpy().max(-1)):
    print(f"  {label.decode():12s} {p:5.1%}  {text}")
assert "kbert" not in sys.modules
"""


def ask_saved_model(saved_model, texts) -> str:
    """The answers of an exported classifier in a separate process, which does not import kbert.

    Returns:
        A line for each text: its label, the label's probability, the text.
    """
    command = [sys.executable, "-c", _PROGRAM, str(saved_model), *texts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"A process that asks {saved_model} ended with status {done.returncode}:\n{done.stderr}")
    return done.stdout.rstrip("\n")
