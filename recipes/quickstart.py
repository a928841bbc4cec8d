"""From text to answers in four to nine minutes on two cores, on Linux and without downloading data.

    python recipes/quickstart.py

Takes English prose from the Python installation, learns a vocabulary, pre-trains a tiny BERT, and fine-tunes it (and,
for comparison, random weights) to say which library a sentence is about. Then exports it, queries it without kbert, and
reports what is inside. At the end kbert-tiny, pre-trained for an hour on Wikipedia and novels, fills masks.
"""

import csv
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time

import kbert
from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.corpus.installed_prose import installed_documents
from kbert.files import write_json
from kbert.options import Count
from kbert.text.learn_vocabulary import learn_vocabulary
from kbert.text.vocabulary import write_vocabulary

LIBRARIES = ("python", "numpy", "keras", "tensorflow", "keras_hub", "tensorboard")
SENTENCES = 12_000  # of a library at most: TensorFlow has as many as all others together
TRAIN, TEST = 60, 150  # labeled sentences of a library: few to learn from, so that the effect of pre-training shows
NAMES = re.compile(r"\b(c?python\d?|numpy|np|keras([_ ]?(hub|nlp|cv))?|tensorflow|tf\d?|tensorboard|tb)\b", re.I)
QUESTIONS = (
    "Returns the element-wise sine of the array.",
    "Trains the model for a fixed number of epochs, with callbacks.",
    "Raised when a coroutine is cancelled while it waits for a lock.",
)
SHIPPED = pathlib.Path(__file__).parent.parent / "saved_models" / "kbert-tiny"
PROMPTS = (
    "He was born in London and died in [MASK].",
    "She opened the [MASK] and went into the room.",
    "They had two sons and a [MASK].",
    "The battle took place in [MASK] 1815.",
)
PRETRAINING = {"batch_size": 64, "sequence_length": 64, "learning_rate": 1e-3, "dropout": 0, "packed": False}
FINETUNING = {"sequence_length": 32, "epochs": 8, "batch_size": 16, "learning_rate": 3e-4, "dropout": 0.1}
SEEDS = (0, 1, 2)


def quickstart(*, output: PathLike = pathlib.Path("runs/quickstart"), steps: Count = 700) -> dict:
    """Runs everything once, from text to the answers of an exported model.

    Args:
        output: new directory for all results.
        steps: pre-training steps.
    """
    start, output = time.perf_counter(), pathlib.Path(output)
    if output.exists():
        raise FileExistsError(f"{output} already exists. Delete it, or pass another --output")
    output.mkdir(parents=True)

    print("1. The prose of this installation, one sentence a line", flush=True)
    write_prose(output)
    corpus = output / "corpus.txt"
    task = kbert.tasks.Classification(text="text", label="library")
    train, test = (task.read(output / f"{part}.csv") for part in ("train", "test"))
    print(f"{len(train)} labeled sentences to learn from, {len(test)} to test on")

    print("\n2. A vocabulary of 4,000 word pieces", flush=True)
    write_vocabulary(output / "vocab.txt", learn_vocabulary(corpus.read_text("utf-8").split("\n"), 4000))

    print("\n3. Pre-training of BERT-tiny", flush=True)
    pretraining = kbert.pretrain(
        corpus,
        vocabulary=output / "vocab.txt",
        steps=steps,
        warmup_steps=-(-3 * steps // 10),  # with fewer, a run this short may stay on its first plateau
        held_out=0.03,
        output=output / "pretrained",
        **PRETRAINING,
    )

    print("\n4. Fine-tuning, and the same from random weights", flush=True)
    runs = {"pre-trained": [], "random weights": []}
    for seed in SEEDS:
        for name in runs:
            run = kbert.finetune(
                output / "pretrained",
                task,
                train,
                test,
                output / "finetuned" / f"{name.replace(' ', '-')}-{seed}",
                seed=seed,
                random_weights=name == "random weights",
                keep="last",
                evaluate_every=50,
                **FINETUNING,
            )
            runs[name].append(run)
    accuracy = {name: [run.metrics["dev"]["accuracy"] for run in each] for name, each in runs.items()}

    print("\n5. A SavedModel. A fresh process that does not import kbert answers:", flush=True)
    best = runs["pre-trained"][0]
    print(ask_saved_model(kbert.export(best.pipeline, output / "saved_models" / "library"), QUESTIONS))

    print("\n6. What is inside the model: attention, layers, embeddings, the words that decided", flush=True)
    kbert.inspect(
        best.path,
        QUESTIONS,
        test,
        compare=output / "pretrained",
        name="The quickstart's classifier",
        directory=output / "inspection",
        log_dir=best.path / "logs",
    )

    print("\n7. kbert-tiny, pre-trained for an hour, fills masks", flush=True)
    tokens = kbert.build_pipeline(SHIPPED).predict(list(PROMPTS), verbose=0)["tokens"]
    for text, answers in zip(PROMPTS, tokens, strict=True):
        print(f"  {text}  {', '.join(answers[0])}")

    metrics = {"pretraining": pretraining.metrics, "accuracy": accuracy, "minutes": (time.perf_counter() - start) / 60}
    metrics["majority_accuracy"] = best.metrics["constant_answer"]["accuracy"]
    write_json(output / "metrics.json", metrics)
    print(f"\nWhich library is this sentence about? (accuracy on modules never seen)\n{accuracy_table(metrics)}")
    print(f"\nDone in {metrics['minutes']:.1f} minutes. Curves: tensorboard --logdir {output}")
    print(
        f"Look inside: {output / 'inspection' / 'report.html'}. Your own text: docs/quickstart.md, docs/pretraining.md"
    )
    return metrics


def write_prose(output):
    """Writes corpus.txt (a sentence a line, a blank line between modules), train.csv and test.csv.

    Every third module is for testing and in no other file. The names of the libraries are removed from labeled
    sentences. The same installation gives the same files.
    """
    corpus, labeled = [], {"train": {}, "test": {}}
    for number, (library, _, sentences) in enumerate(installed_documents(LIBRARIES, SENTENCES)):
        labeled["train" if number % 3 else "test"].setdefault(library, []).extend(sentences)
        if number % 3:
            corpus.append("\n".join(sentences) + "\n")
    draw = random.Random(0)
    draw.shuffle(corpus)
    (output / "corpus.txt").write_text("\n".join(corpus), encoding="utf-8")
    for (part, sentences_of), number in zip(labeled.items(), (TRAIN, TEST), strict=True):
        rows = []
        for library, sentences in sentences_of.items():
            anonymous = {" ".join(NAMES.sub(" ", sentence).split()) for sentence in sentences}
            distinct = sorted(sentence for sentence in anonymous if len(sentence.split()) >= 6)
            rows += [(text, library) for text in draw.sample(distinct, min(number, len(distinct)))]
        draw.shuffle(rows)
        with open(output / f"{part}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "library"), *rows])


PROGRAM = """
import sys, tensorflow as tf, tensorflow_text  # tensorflow_text: registers two ops; kbert is not imported
answer = tf.saved_model.load(sys.argv[1]).signatures["serving_default"](text=tf.constant(sys.argv[2:]))
for text, label, p in zip(sys.argv[2:], answer["label"].numpy(), answer["probabilities"].numpy().max(-1)):
    print(f"  {label.decode():12s} {p:5.1%}  {text}")
assert "kbert" not in sys.modules
"""


def ask_saved_model(path, texts):
    """The answers of an exported classifier in a process that does not import kbert, a line for each text."""
    command = [sys.executable, "-c", PROGRAM, str(path), *texts]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.rstrip("\n")


def accuracy_table(metrics):
    """Mean and standard deviation over the seeds, beside the majority-class baseline."""
    lines = [f"  {'majority class':16s} {metrics['majority_accuracy']:6.1%}"]
    for name, each in sorted(metrics["accuracy"].items(), key=lambda item: statistics.mean(item[1])):
        lines.append(f"  {name:16s} {statistics.mean(each):6.1%}  ± {statistics.stdev(each):.1%}")
    return "\n".join(lines)


COMMAND = Command(verb=quickstart, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
