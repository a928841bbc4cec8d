"""From text to answers in a few minutes, on any laptop: no arguments, no downloads.

    python recipes/quickstart.py

Takes the English prose that every Python installation carries (documentation topics and docstrings of installed
packages), and runs on it the very recipes that one would run on a corpus of one's own; each command is printed before
it runs. It learns a vocabulary, pre-trains a tiny BERT, fine-tunes it to say which library a sentence is about, beside
the same model from random weights, exports a SavedModel and asks it questions from a process that knows nothing of
kbert. All of it lies in --output afterwards.
"""

import argparse
import importlib
import math
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from flags import command, plain_errors, positive_int, settings_of

from kbert.benchmarks.library_sentences import write_library_sentences
from kbert.files import read_json, write_json

SEEDS = (0, 1, 2)
MADE = ("corpus.txt", "train.csv", "test.csv", "vocab.txt", "vocab.json", "pretrained", "finetuned", "saved_models",
        "settings.json", "metrics.json")  # fmt: skip
QUESTIONS = (
    "Returns the element-wise sine of the array.",
    "Trains the model for a fixed number of epochs, with callbacks.",
    "Raised when a coroutine is cancelled while it waits for a lock.",
)
ASK = """
import sys, tensorflow as tf, tensorflow_text  # tensorflow_text: registers two ops; kbert is not imported
answer = tf.saved_model.load(sys.argv[1]).signatures["serving_default"](text=tf.constant(sys.argv[2:]))
for text, label, p in zip(sys.argv[2:], answer["label"].numpy(), answer["probabilities"].numpy().max(-1)):
    print(f"  {label.decode():12s} {p:5.1%}  {text}")
assert "kbert" not in sys.modules
"""


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="runs/quickstart", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--steps", default=700, type=positive_int, metavar="N", help="of pre-training (default 700)")
    parser.add_argument("--overwrite", action="store_true", help="delete what an earlier quickstart left in --output")
    return parser.parse_args(argv)


def claim(output, overwrite):
    """Makes the output directory; says what is there if it holds anything."""
    if output.exists() and not output.is_dir():
        raise FileExistsError(f"--output must be a directory. Received: {output}, which is a file")
    if output.exists() and any(output.iterdir()):
        names = sorted(path.name for path in output.iterdir())
        if not overwrite:
            finished = output / "metrics.json"
            report = f"Its results:\n{finished.read_text()}" if finished.exists() else "That run did not finish.\n"
            sys.exit(
                f"{output} is not empty: {', '.join(names)}\n{report}"
                "--overwrite deletes it and starts again; --output DIR writes elsewhere."
            )
        if others := [name for name in names if name.removeprefix(".").removesuffix(".part") not in MADE]:
            sys.exit(f"{output} holds more than quickstart.py made ({', '.join(others[:3])}): not deleted. "
                     "Give another --output")  # fmt: skip
        shutil.rmtree(output)
    output.mkdir(parents=True, exist_ok=True)


def recipe(name, *arguments):
    """Prints a command and runs that recipe in this process (starting TensorFlow anew each time would take longer)."""
    arguments = [str(argument) for argument in arguments]
    print(f"\n$ python recipes/{name}.py {shlex.join(arguments)}", flush=True)
    return importlib.import_module(name).main(arguments)


def pretrain(output, steps):
    recipe("learn_vocabulary", "--corpus", output / "corpus.txt", "--size", 4000, "--output", output / "vocab.txt")
    recipe(
        "pretrain", "--corpus", output / "corpus.txt", "--vocab", output / "vocab.txt", "--size", "tiny",
        "--sequence-length", 64, "--batch-size", 64, "--steps", steps, "--learning-rate", 1e-3,
        "--warmup-steps", math.ceil(0.3 * steps),  # shorter, and a run this short may stay on its first plateau
        "--dropout", 0, "--held-out", 0.03, "--output", output / "pretrained",
    )  # fmt: skip
    return read_json(output / "pretrained/metrics.json")


def finetune(output):
    """Accuracy on the test modules, from pre-trained and from random weights, one for each seed."""
    accuracies = {"pre-trained": [], "random weights": []}
    for seed in SEEDS:
        for start, scores in accuracies.items():
            where = output / "finetuned" / f"{start.replace(' ', '-')}-{seed}"
            recipe(
                "finetune_classifier", "--train", output / "train.csv", "--dev", output / "test.csv",
                "--text-column", "text", "--label-column", "library", "--init", output / "pretrained/model",
                *(["--random-weights"] if start == "random weights" else []), "--sequence-length", 32, "--epochs", 8,
                "--batch-size", 16, "--learning-rate", 3e-4, "--dropout", 0.1, "--seed", seed, "--output", where,
            )  # fmt: skip
            scores.append(read_json(where / "metrics.json")["dev"]["accuracy"])
    return accuracies


def report(majority, pretrained, accuracies):
    unigram = pretrained["unigram"]
    print(f"\nMasked tokens guessed right: {pretrained['mlm_accuracy']:.1%}; "
          f"always the most frequent one: {unigram['accuracy']:.1%}")  # fmt: skip
    print(f"Masked language model loss:  {pretrained['mlm_cross_entropy']:.2f}; "
          f"token frequencies alone: {unigram['cross_entropy']:.2f} (nats)")  # fmt: skip
    print(f"Next sentence accuracy:      {pretrained['nsp_accuracy']:.1%}")
    print("\nWhich library is this sentence about? (accuracy on modules never seen)")
    print(f"  {'majority class':16s} {majority:6.1%}")
    for start, scores in reversed(accuracies.items()):
        spread = statistics.stdev(scores)
        print(f"  {start:16s} {statistics.mean(scores):6.1%}  ± {spread:.1%} over {len(scores)} seeds")


def main(argv=None):
    args = parse_arguments(argv)
    start = time.perf_counter()
    with plain_errors():
        claim(args.output, args.overwrite)
        write_json(args.output / "settings.json", settings_of(args))
    print("Reading the prose of this installation …", flush=True)
    majority = write_library_sentences(args.output)
    pretrained = pretrain(args.output, args.steps)
    accuracies = finetune(args.output)
    saved_model = args.output / "saved_models" / "library"
    recipe("export", "--model", args.output / "finetuned/pre-trained-0/model", "--output", saved_model)
    print("\nA fresh process that does not import kbert answers:", flush=True)
    subprocess.run([sys.executable, "-c", ASK, str(saved_model / "1"), *QUESTIONS], check=True)

    report(majority, pretrained, accuracies)
    minutes = (time.perf_counter() - start) / 60
    metrics = {"pretraining": pretrained, "majority_accuracy": majority, "accuracy": accuracies, "minutes": minutes}
    write_json(args.output / "metrics.json", metrics)
    print(f"\nDone in {minutes:.1f} minutes; everything is in {args.output}.")
    print(f"See the curves:       tensorboard --logdir {args.output}")
    print(f"Ask for predictions:  python recipes/predict.py --model {args.output}/finetuned/pre-trained-0/model "
          f"--input {args.output}/test.csv --output predictions.jsonl")  # fmt: skip
    print("Your own text next:   docs/quickstart.md, docs/pretraining.md")


if __name__ == "__main__":
    command(main)
