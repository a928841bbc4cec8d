"""From text to answers in a few minutes, on any laptop, without downloading data.

    python recipes/quickstart.py

Takes English prose from the Python installation, learns a vocabulary, pre-trains a tiny BERT, and fine-tunes it (and,
for comparison, random weights) to say which library a sentence is about; exports it, queries it without kbert, and
reports what is inside. At the end kbert-tiny, pre-trained for an hour on Wikipedia and novels, is tried as well.
"""

import csv
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter

from kbert.cli import Command, run_command
from kbert.corpus.installed_prose import installed_documents
from kbert.files import is_partial, write_json
from kbert.options import Count, PathLike

SHIPPED = pathlib.Path(__file__).parent.parent / "saved_models" / "kbert-tiny"
QUESTIONS = (
    "Returns the element-wise sine of the array.",
    "Trains the model for a fixed number of epochs, with callbacks.",
    "Raised when a coroutine is cancelled while it waits for a lock.",
)
PROMPTS = (
    "He was born in London and died in [MASK].",
    "She opened the [MASK] and went into the room.",
    "They had two sons and a [MASK].",
    "The battle took place in [MASK] 1815.",
)
PRETRAINING = {"batch_size": 64, "sequence_length": 64, "learning_rate": 1e-3, "dropout": 0, "packed": False}
LIBRARY = {"sequence_length": 32, "epochs": 8, "batch_size": 16, "learning_rate": 3e-4, "dropout": 0.1}
ORDER = {"sequence_length": 48, "epochs": 8, "batch_size": 16, "learning_rate": 5e-4, "dropout": 0.0}
SEEDS = (0, 1, 2)
RANDOM = "random weights"


def run(output: pathlib.Path, steps: int) -> dict:
    """Everything from text to a SavedModel; returns the metrics."""
    import kbert
    from kbert.text.learn_vocabulary import learn_vocabulary
    from kbert.text.vocabulary import write_vocabulary

    print("1. The prose of this installation, one sentence a line", flush=True)
    majority = write_library_sentences(output)

    print("\n2. A vocabulary of 4,000 word pieces", flush=True)
    corpus = output / "corpus.txt"
    vocabulary = output / "vocab.txt"
    write_vocabulary(vocabulary, learn_vocabulary(corpus.read_text("utf-8").split("\n"), 4000))

    print("\n3. Pre-training of BERT-tiny", flush=True)
    pretraining = kbert.pretrain(
        corpus,
        vocabulary=vocabulary,
        steps=steps,
        warmup_steps=-(-3 * steps // 10),  # with fewer, a run this short may stay on its first plateau
        held_out=0.03,
        output=output / "pretrained",
        **PRETRAINING,
    )

    print("\n4. Fine-tuning, and the same from random weights", flush=True)
    task = kbert.tasks.Classification(text="text", label="library")
    train = task.read(output / "train.csv")
    test = task.read(output / "test.csv")
    runs = finetune_both(
        "pre-trained", output / "pretrained", task, train, test, output / "finetuned", evaluate_every=50, **LIBRARY
    )

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
    metrics = {
        "pretraining": pretraining.metrics,
        "majority_accuracy": majority,
        "accuracy": accuracies(runs),
    }
    if SHIPPED.is_dir():
        print("\n7. kbert-tiny, pre-trained for an hour: masks filled, and shuffled words recognised", flush=True)
        metrics["shipped"] = try_shipped_model(SHIPPED, output)
    return metrics


LIBRARIES = ("python", "numpy", "keras", "tensorflow", "keras_hub", "tensorboard")
SENTENCES_OF_A_LIBRARY = 12_000  # TensorFlow has as many as all others together
TRAIN_OF_A_LIBRARY = 60  # labelled sentences: few, so that the effect of pre-training shows
TEST_OF_A_LIBRARY = 150
_NAMES = re.compile(r"\b(c?python\d?|numpy|np|keras([_ ]?(hub|nlp|cv))?|tensorflow|tf\d?|tensorboard|tb)\b", re.I)
ORDER_COLUMNS = ("text", "words")
ORDERED, SHUFFLED = "in order", "shuffled"
ORDER_TRAIN = 400  # sentences: few to learn from, so that the effect of pre-training shows
ORDER_TEST = 900
_WORDS = (8, 24)  # of a sentence, at least and at most
_WORD = re.compile(r"[\w'-]+")


def write_library_sentences(output) -> float:
    """Writes corpus.txt (one sentence per line, a blank line between modules), train.csv and test.csv.

    The split is by module, not by sentence: every third module is for testing and is in no other file. The names of the
    libraries are removed from labelled sentences. A library that is not installed is skipped.

    Returns:
        float, the accuracy of always answering the most frequent library of test.csv.
    """
    output = pathlib.Path(output)
    corpus = []
    train = {}
    test = {}
    shuffled = random.Random(0)
    for number, (library, _, sentences) in enumerate(installed_documents(LIBRARIES, SENTENCES_OF_A_LIBRARY)):
        (test if number % 3 == 0 else train).setdefault(library, []).extend(sentences)
        if number % 3:
            corpus.append(sentences)
    shuffled.shuffle(corpus)
    with open(output / "corpus.txt", "w", encoding="utf-8") as file:
        file.write("\n\n".join("\n".join(sentences) for sentences in corpus) + "\n")
    _write_labelled(output / "train.csv", train, TRAIN_OF_A_LIBRARY, shuffled)
    labels = _write_labelled(output / "test.csv", test, TEST_OF_A_LIBRARY, shuffled)
    print(
        f"{sum(map(len, corpus)):,} sentences of {len(corpus):,} modules for pre-training; {TRAIN_OF_A_LIBRARY} "
        f"labelled sentences a library for fine-tuning, {len(labels):,} in all for testing"
    )
    return max(Counter(labels).values()) / len(labels)


def _write_labelled(path, sentences_of, number, shuffled):
    rows = []
    for library in LIBRARIES:
        anonymous = {" ".join(_NAMES.sub(" ", s).split()) for s in sentences_of.get(library, ())}
        distinct = sorted(s for s in anonymous if len(s.split()) >= 6)
        rows += [(text, library) for text in shuffled.sample(distinct, min(number, len(distinct)))]
    shuffled.shuffle(rows)
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "library"), *rows])
    return [library for _, library in rows]


def write_shuffled_sentences(output) -> None:
    """Writes train_order.csv and test_order.csv: sentences without punctuation, half of them with shuffled words.

    The split is by module, not by sentence: every third module is for testing. The same installation gives the same
    files.
    """
    parts = {"train": set(), "test": set()}
    shuffled = random.Random(0)
    for number, (_, _, sentences) in enumerate(installed_documents(LIBRARIES, SENTENCES_OF_A_LIBRARY)):
        found = (tuple(_WORD.findall(sentence)) for sentence in sentences)
        parts["train" if number % 3 else "test"].update(words for words in found if _fits(words))
    parts["test"] -= parts["train"]  # sentences that several modules share
    for (part, sentences), number in zip(parts.items(), (ORDER_TRAIN, ORDER_TEST), strict=True):
        chosen = shuffled.sample(sorted(sentences), min(number, len(sentences)))
        rows = [(_shuffle(words, shuffled), SHUFFLED) if n % 2 else (words, ORDERED) for n, words in enumerate(chosen)]
        with open(pathlib.Path(output) / f"{part}_order.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([ORDER_COLUMNS, *((" ".join(words), label) for words, label in rows)])


def _fits(words):
    return _WORDS[0] <= len(words) <= _WORDS[1] and len(set(words)) > 1


def _shuffle(words, shuffled):
    """The same words in another order."""
    while (changed := tuple(shuffled.sample(words, len(words)))) == words:
        pass
    return changed


def finetune_both(name, init, task, train, test, output, **options) -> dict[str, list]:
    """Fine-tunes a model, and random weights of its architecture, with each seed; returns the runs by name."""
    import kbert

    runs = {name: [], RANDOM: []}
    for seed in SEEDS:
        for start in runs:
            run = kbert.finetune(
                init,
                task,
                train,
                test,
                output / f"{start.replace(' ', '-')}-{seed}",
                seed=seed,
                random_weights=start == RANDOM,
                keep="last",
                **options,
            )
            runs[start].append(run)
    return runs


def accuracies(runs: dict[str, list]) -> dict[str, list[float]]:
    """The accuracy of each seed, by the name of the model."""
    return {name: [run.metrics["dev"]["accuracy"] for run in each] for name, each in runs.items()}


PROGRAM = """
import sys, tensorflow as tf, tensorflow_text  # tensorflow_text: registers two ops; kbert is not imported
answer = tf.saved_model.load(sys.argv[1]).signatures["serving_default"](text=tf.constant(sys.argv[2:]))
for text, label, p in zip(sys.argv[2:], answer["label"].numpy(), answer["probabilities"].numpy().max(-1)):
    print(f"  {label.decode():12s} {p:5.1%}  {text}")
assert "kbert" not in sys.modules
"""


def ask_saved_model(saved_model, texts) -> str:
    """The answers of an exported classifier in a process that does not import kbert, a line for each text."""
    command = [sys.executable, "-c", PROGRAM, str(saved_model), *texts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"A process that asks {saved_model} ended with status {done.returncode}:\n{done.stderr}")
    return done.stdout.rstrip("\n")


def try_shipped_model(model: pathlib.Path, output: pathlib.Path) -> dict:
    """Fills masks, and learns from 400 sentences to tell whether their words are in order or shuffled."""
    import kbert

    pipeline = kbert.build_pipeline(kbert.load_pretrained(model))
    tokens = pipeline.predict(list(PROMPTS), verbose=0)["tokens"]
    filled = {text: answers[0].tolist() for text, answers in zip(PROMPTS, tokens, strict=True)}
    print("\n".join(f"  {text}  {', '.join(answers)}" for text, answers in filled.items()))

    write_shuffled_sentences(output)
    text, label = ORDER_COLUMNS
    task = kbert.tasks.Classification(text=text, label=label)
    train = task.read(output / "train_order.csv")
    test = task.read(output / "test_order.csv")
    runs = finetune_both(model.name, model, task, train, test, output / "order", **ORDER)
    return {"filled": filled, "accuracy": accuracies(runs)}


OWN = {"corpus.txt", "train.csv", "test.csv", "vocab.txt", "pretrained", "finetuned", "saved_models", "inspection"}
OWN |= {"metrics.json", "train_order.csv", "test_order.csv", "order"}


def claim_directory(path: pathlib.Path, overwrite: bool = False) -> None:
    """Creates an empty directory; `overwrite` deletes what the quickstart wrote there earlier, and nothing else."""
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"--output must be a directory. Received: {path}, which is a file")
    names = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
    if names and not overwrite:
        metrics = path / "metrics.json"
        report = f"Its results:\n{metrics.read_text()}" if metrics.exists() else "That run did not finish.\n"
        raise FileExistsError(f"{path} holds {', '.join(names)}. {report}--overwrite deletes it.")
    others = [name for name in names if name not in OWN and not is_partial(name)]
    if others:
        raise FileExistsError(f"{path} holds more than this recipe makes ({', '.join(others[:3])}): not deleted.")
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)


def describe_accuracies(question: str, majority: float, accuracies: dict[str, list[float]]) -> str:
    """Mean and deviation over the seeds as a table, the best model last."""
    lines = [f"{question} (accuracy on modules never seen)", f"  {'majority class':16s} {majority:6.1%}"]
    for name, each in sorted(accuracies.items(), key=lambda item: statistics.mean(item[1])):
        mean = statistics.mean(each)
        deviation = statistics.stdev(each)
        lines.append(f"  {name:16s} {mean:6.1%}  ± {deviation:.1%} over {len(each)} seeds")
    return "\n".join(lines)


def describe_results(metrics: dict, output: pathlib.Path) -> str:
    """What the scores say, and where to look next."""
    from kbert.pretraining.run.pretrain import describe_scores

    lines = [
        f"\n{describe_scores(metrics['pretraining'])}\n",
        describe_accuracies("Which library is this sentence about?", metrics["majority_accuracy"], metrics["accuracy"]),
    ]
    if "shipped" in metrics:
        lines.append(describe_accuracies("Are the words of a sentence in order?", 0.5, metrics["shipped"]["accuracy"]))
    lines += [
        f"\nDone in {metrics['minutes']:.1f} minutes; everything is in {output}.",
        f"See how it learned:  tensorboard --logdir {output}",
        "  Time Series has training, test and baseline in one chart: how far the pre-training gets from token "
        "frequencies alone, and where a fine-tuning learns its few sentences by heart instead of the task.",
        f"Look inside:         {output / 'inspection' / 'report.html'}",
        "Your own text next:  docs/quickstart.md, docs/pretraining.md",
    ]
    return "\n".join(lines)


def quickstart(
    *, output: PathLike = pathlib.Path("runs/quickstart"), steps: Count = 700, overwrite: bool = False
) -> tuple[dict, pathlib.Path]:
    """Runs everything once, from text to a served answer, and returns the metrics and where they are.

    Args:
        output: directory for all results.
        steps: pre-training steps.
        overwrite: delete what an earlier call wrote to `output`.
    """
    start, output = time.perf_counter(), pathlib.Path(output)
    claim_directory(output, overwrite)
    metrics = run(output, steps)
    metrics["minutes"] = (time.perf_counter() - start) / 60
    write_json(output / "metrics.json", metrics)
    return metrics, output


COMMAND = Command(verb=quickstart, report=lambda result: print(describe_results(*result)), about=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
