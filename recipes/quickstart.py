"""From text to answers in a few minutes, on any laptop, without downloading data.

    python recipes/quickstart.py

Takes English prose from the Python installation (documentation topics and docstrings of installed packages), learns a
vocabulary from it, pre-trains a tiny BERT, fine-tunes it, and for comparison the same model from random weights, to say
which library a sentence is about, exports a SavedModel, queries it from a process that does not import kbert, and
writes a report of what is inside the model. At the end, kbert-tiny, which kbert pre-trained for an hour on Wikipedia
and novels, fills masks and is fine-tuned, and so are random weights for comparison. All results are in --output.
"""

import argparse
import itertools
import pathlib
import time

from flags import command, plain_errors, positive_int

SEEDS = (0, 1, 2)
MADE = {"corpus.txt", "train.csv", "test.csv", "vocab.txt", "pretrained", "finetuned", "saved_models"}
MADE |= {"inspection", "metrics.json", "train_pairs.csv", "test_pairs.csv", "following"}
SHIPPED = pathlib.Path(__file__).parent.parent / "saved_models" / "kbert-tiny"
QUESTIONS = (
    "Returns the element-wise sine of the array.",
    "Trains the model for a fixed number of epochs, with callbacks.",
    "Raised when a coroutine is cancelled while it waits for a lock.",
)


def run(output, steps):
    """Everything from text to a SavedModel; the metrics."""
    import kbert
    from kbert.benchmarks.ask_saved_model import ask_saved_model
    from kbert.benchmarks.library_sentences import write_library_sentences
    from kbert.benchmarks.try_shipped_model import describe_filled, try_shipped_model
    from kbert.corpus.documents import read_documents
    from kbert.text.learn_vocabulary import learn_vocabulary
    from kbert.text.vocabulary import write_vocabulary

    print("1. The prose of this installation, one sentence a line", flush=True)
    majority = write_library_sentences(output)
    print("\n2. A vocabulary of 4,000 word pieces", flush=True)
    lines = itertools.chain.from_iterable(read_documents(output / "corpus.txt"))
    write_vocabulary(output / "vocab.txt", learn_vocabulary(lines, 4000))
    print("\n3. Pre-training of BERT-tiny", flush=True)
    pretrained = kbert.pretrain(
        output / "corpus.txt",
        vocabulary=output / "vocab.txt",
        steps=steps,
        batch_size=64,
        sequence_length=64,
        learning_rate=1e-3,
        warmup_steps=-(-3 * steps // 10),  # shorter, and a run this short may stay on its first plateau
        dropout=0,
        held_out=0.03,
        packed=False,
        output=output / "pretrained",
    )
    print("\n4. Fine-tuning, and the same from random weights", flush=True)
    task = kbert.tasks.Classification(text="text", label="library")
    train, test = task.read(output / "train.csv"), task.read(output / "test.csv")
    options = {"sequence_length": 32, "epochs": 8, "batch_size": 16, "learning_rate": 3e-4, "dropout": 0.1}
    runs = {"pre-trained": [], "random weights": []}
    for seed, (start, found) in itertools.product(SEEDS, runs.items()):
        where = output / "finetuned" / f"{start.replace(' ', '-')}-{seed}"
        options |= {"seed": seed, "random_weights": start == "random weights", "keep": "last"}
        found.append(kbert.finetune(output / "pretrained", task, train, test, where, evaluate_every=50, **options))
    print("\n5. A SavedModel. A fresh process that does not import kbert answers:", flush=True)
    saved_model = kbert.export(runs["pre-trained"][0].pipeline, output / "saved_models" / "library")
    print(ask_saved_model(saved_model, QUESTIONS))
    print("\n6. What is inside the model: attention, layers, embeddings, the words that decided", flush=True)
    model = output / "finetuned" / "pre-trained-0"
    before, where = output / "pretrained", {"directory": output / "inspection", "log_dir": model / "logs"}
    kbert.inspect(model, QUESTIONS, test, compare=before, name="The quickstart's classifier", **where)
    accuracy = {start: [one.metrics["dev"]["accuracy"] for one in found] for start, found in runs.items()}
    metrics = {"pretraining": pretrained.metrics, "majority_accuracy": majority, "accuracy": accuracy}
    if SHIPPED.is_dir():
        print("\n7. kbert-tiny, pre-trained for an hour: masks filled, and which sentence follows which", flush=True)
        metrics["shipped"] = try_shipped_model(SHIPPED, output, SEEDS)
        print(describe_filled(metrics["shipped"]["filled"]))
    return metrics


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    output = "directory for all results (default: runs/quickstart)"
    parser.add_argument("--output", default="runs/quickstart", type=pathlib.Path, metavar="DIR", help=output)
    parser.add_argument(
        "--steps", default=700, type=positive_int, metavar="N", help="pre-training steps (default: 700)"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="delete the results of an earlier quickstart in --output"
    )
    args, start = parser.parse_args(argv), time.perf_counter()
    with plain_errors():
        from kbert.benchmarks.claim_directory import claim_directory
        from kbert.benchmarks.library_sentences import describe_accuracies
        from kbert.files import write_json
        from kbert.tasks.pretraining.table import describe_scores

        claim_directory(args.output, MADE, args.overwrite)
        metrics = run(args.output, args.steps)
    metrics["minutes"] = (time.perf_counter() - start) / 60
    write_json(args.output / "metrics.json", metrics)
    print(f"\n{describe_scores(metrics['pretraining'])}\n")
    which = "Which library is this sentence about?"
    print(describe_accuracies(which, metrics["majority_accuracy"], metrics["accuracy"]))
    if "shipped" in metrics:
        print(describe_accuracies("Does one sentence follow the other?", 0.5, metrics["shipped"]["accuracy"]))
    print(f"\nDone in {metrics['minutes']:.1f} minutes; everything is in {args.output}.")
    print(f"See how it learned:  tensorboard --logdir {args.output}")
    print(
        "  Time Series has training, test and baseline in one chart: how far the pre-training gets from token "
        "frequencies alone, and where a fine-tuning learns its few sentences by heart instead of the task."
    )
    print(f"Look inside:         {args.output / 'inspection' / 'report.html'}")
    print("Your own text next:  docs/quickstart.md, docs/pretraining.md")


if __name__ == "__main__":
    command(main)
