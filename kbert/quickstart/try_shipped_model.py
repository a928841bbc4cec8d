"""What a model that others trained brings within a minute: filled masks, and a fine-tuning against random weights."""

import pathlib
from collections.abc import Sequence

from kbert.quickstart.finetune_both import accuracies, finetune_both
from kbert.quickstart.shuffled_sentences import COLUMNS, write_shuffled_sentences
from kbert.tasks.classification.task import Classification
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained

PROMPTS = (
    "He was born in London and died in [MASK].",
    "She opened the [MASK] and went into the room.",
    "They had two sons and a [MASK].",
    "The battle took place in [MASK] 1815.",
)
OPTIONS = {"sequence_length": 48, "epochs": 8, "batch_size": 16, "learning_rate": 5e-4, "dropout": 0.0}


def try_shipped_model(model, output, seeds: Sequence[int] = (0, 1, 2)) -> dict:
    """Fills masks, and learns from 400 sentences to tell whether their words are in order or shuffled.

    Returns:
        dict: ``filled``, text → the most probable tokens of its mask; ``accuracy``, {model: that of each seed} on other
        modules, where half of the sentences are shuffled.
    """
    output, model = pathlib.Path(output), pathlib.Path(model)
    tokens = build_pipeline(load_pretrained(model)).predict(list(PROMPTS), verbose=0)["tokens"]
    write_shuffled_sentences(output)
    task = Classification(**dict(zip(("text", "label"), COLUMNS, strict=True)))
    train, test = task.read(output / "train_order.csv"), task.read(output / "test_order.csv")
    runs = finetune_both(model, task, train, test, output / "order", name=model.name, seeds=seeds, **OPTIONS)
    return {
        "filled": {text: answers[0].tolist() for text, answers in zip(PROMPTS, tokens, strict=True)},
        "accuracy": accuracies(runs),
    }


def describe_filled(filled: dict) -> str:
    """Texts with the most probable tokens of their masks, a line each, for printing."""
    return "\n".join(f"  {text}  {', '.join(tokens)}" for text, tokens in filled.items())
