"""From text to answers in a few minutes, on any laptop, without downloading data.

    python recipes/quickstart.py

Takes English prose from the Python installation, learns a vocabulary, pre-trains a tiny BERT, and fine-tunes it (and,
for comparison, random weights) to say which library a sentence is about; exports it, queries it without kbert, and
reports what is inside. At the end kbert-tiny, pre-trained for an hour on Wikipedia and novels, is tried as well.
"""

import pathlib
import time

from kbert.command_line import add_flags, make_parser, plain_errors, run_program

SHIPPED = pathlib.Path(__file__).parent.parent / "saved_models" / "kbert-tiny"
QUESTIONS = (
    "Returns the element-wise sine of the array.",
    "Trains the model for a fixed number of epochs, with callbacks.",
    "Raised when a coroutine is cancelled while it waits for a lock.",
)
PRETRAINING = {"batch_size": 64, "sequence_length": 64, "learning_rate": 1e-3, "dropout": 0, "packed": False}
FINETUNING = {"sequence_length": 32, "epochs": 8, "batch_size": 16, "learning_rate": 3e-4, "dropout": 0.1}


def run(output, steps):
    """Everything from text to a SavedModel; the metrics."""
    import kbert
    from kbert.quickstart.ask_saved_model import ask_saved_model
    from kbert.quickstart.finetune_both import accuracies, finetune_both
    from kbert.quickstart.library_sentences import write_library_sentences
    from kbert.quickstart.try_shipped_model import describe_filled, try_shipped_model
    from kbert.text.learn_vocabulary import learn_vocabulary
    from kbert.text.vocabulary import write_vocabulary

    print("1. The prose of this installation, one sentence a line", flush=True)
    majority = write_library_sentences(output)
    print("\n2. A vocabulary of 4,000 word pieces", flush=True)
    corpus, vocabulary, pretrained = output / "corpus.txt", output / "vocab.txt", output / "pretrained"
    write_vocabulary(vocabulary, learn_vocabulary(corpus.read_text("utf-8").split("\n"), 4000))
    print("\n3. Pre-training of BERT-tiny", flush=True)
    warmup = -(-3 * steps // 10)  # shorter, and a run this short may stay on its first plateau
    options = PRETRAINING | {"steps": steps, "warmup_steps": warmup, "held_out": 0.03}
    pretraining = kbert.pretrain(corpus, vocabulary=vocabulary, output=pretrained, **options).metrics
    print("\n4. Fine-tuning, and the same from random weights", flush=True)
    task = kbert.tasks.Classification(text="text", label="library")
    train, test = task.read(output / "train.csv"), task.read(output / "test.csv")
    runs = finetune_both(pretrained, task, train, test, output / "finetuned", evaluate_every=50, **FINETUNING)
    print("\n5. A SavedModel. A fresh process that does not import kbert answers:", flush=True)
    best = runs["pre-trained"][0]
    print(ask_saved_model(kbert.export(best.pipeline, output / "saved_models" / "library"), QUESTIONS))
    print("\n6. What is inside the model: attention, layers, embeddings, the words that decided", flush=True)
    where = {"directory": output / "inspection", "log_dir": best.path / "logs"}
    kbert.inspect(best.path, QUESTIONS, test, compare=pretrained, name="The quickstart's classifier", **where)
    metrics = {"pretraining": pretraining, "majority_accuracy": majority, "accuracy": accuracies(runs)}
    if SHIPPED.is_dir():
        print("\n7. kbert-tiny, pre-trained for an hour: masks filled, and shuffled words recognised", flush=True)
        metrics["shipped"] = try_shipped_model(SHIPPED, output)
        print(describe_filled(metrics["shipped"]["filled"]))
    return metrics


def main(argv=None):
    parser, steps = make_parser(__doc__), {"default": 700, "help": "pre-training steps"}
    output = {"required": False, "default": pathlib.Path("runs/quickstart"), "help": "directory for all results"}
    add_flags(parser, "output", "steps", "overwrite", output=output, steps=steps)
    args, start = parser.parse_args(argv), time.perf_counter()
    with plain_errors():
        from kbert.files import write_json
        from kbert.quickstart.claim_directory import claim_directory
        from kbert.quickstart.describe_results import describe_results

        claim_directory(args.output, args.overwrite)
        metrics = run(args.output, args.steps)
    metrics["minutes"] = (time.perf_counter() - start) / 60
    write_json(args.output / "metrics.json", metrics)
    print(describe_results(metrics, args.output))


if __name__ == "__main__":
    run_program(main)
