"""Makes saved_models/kbert-mini-sentiment: kbert-mini, fine-tuned on SST-2's training set.

    PYTHONPATH=.:recipes python recipes/experiments/sentiment_model.py --glue glue --run runs/sentiment

A thousand sentences of the training set choose the epoch; the dev set, whose accuracy the card states, is scored once,
at the end. The folder receives model/ (weights in bfloat16), 1/ (a SavedModel in bfloat16) and README.md.
--random-weights trains random weights of the same architecture instead, for comparison, and leaves the folder alone.
"""

import argparse
import pathlib
import shutil

import kbert

ROOT = pathlib.Path(__file__).parent.parent.parent
NAMES = {"0": "negative", "1": "positive"}
SETTINGS = {"epochs": 3, "batch_size": 32, "learning_rate": 3e-4, "sequence_length": 64, "dropout": 0.1}
TEXTS = (
    "A charming and often affecting journey.",
    "Two hours that I will never get back.",
    "Not bad at all, but it is too long.",
    "The plot is thin, yet the actors make it a pleasure.",
)


def read(path: pathlib.Path) -> dict[str, list[str]]:
    """The sentences of a split and their labels in words."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines if line]
    return {"text": [text.strip() for text, _ in rows], "label": [NAMES[label] for _, label in rows]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glue", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--run", type=pathlib.Path, required=True, metavar="DIR", help="of the fine-tuning")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "saved_models/kbert-mini-sentiment")
    parser.add_argument("--random-weights", action="store_true")
    arguments = parser.parse_args()
    kbert.log_to_console()

    task = kbert.tasks.Classification()
    examples = task.examples(read(arguments.glue / "SST-2/train.tsv"))
    train, chosen_on = examples.split(1000 / len(examples))
    run = kbert.finetune(
        ROOT / "saved_models/kbert-mini",
        task,
        train,
        chosen_on,
        arguments.run,
        more_dev={"_dev_set": task.examples(read(arguments.glue / "SST-2/dev.tsv"))},
        group_by_length=True,
        random_weights=arguments.random_weights,
        **SETTINGS,
    )
    accuracy = run.metrics["dev"]["accuracy_dev_set"]
    constant = run.metrics["constant_answer"]["accuracy_dev_set"]
    print(f"accuracy on the dev set: {accuracy:.4f} (constant answer: {constant:.4f})")
    if arguments.random_weights:
        return

    shutil.rmtree(arguments.output, ignore_errors=True)
    kbert.export(run.pipeline, arguments.output, precision="bfloat16")
    kbert.save_pretrained(run.pipeline, arguments.output / "model", storage_dtype="bfloat16")
    pipeline = kbert.build_pipeline(kbert.load_pretrained(arguments.output / "model"))
    answers = pipeline.predict(list(TEXTS), verbose=0)
    rows = [
        f"| {text} | {label} | {probabilities.max():.1%} |"
        for text, label, probabilities in zip(TEXTS, answers["label"], answers["probabilities"], strict=True)
    ]
    card = (ROOT / "docs/maintainers/templates/sentiment_card.md").read_text(encoding="utf-8")
    settings = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in SETTINGS.items())
    card = card.format(
        accuracy=f"{accuracy:.1%}",
        constant=f"{constant:.1%}",
        chosen=f"{run.metrics['dev']['accuracy']:.1%}",
        train=f"{len(train):,}",
        settings=settings,
        answers="\n".join(rows),
    )
    (arguments.output / "README.md").write_text(card, encoding="utf-8")


if __name__ == "__main__":
    main()
