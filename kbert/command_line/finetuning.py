"""Fine-tuning by flags: `kbert.finetune` with what a command line gives."""

import argparse
import dataclasses
import json

from kbert.command_line.flag_table import MACHINE
from kbert.command_line.flags import add_flags
from kbert.command_line.program import plain_errors


def add_finetuning_flags(parser: argparse.ArgumentParser, **overrides: dict) -> None:
    """The flags of every fine-tuning, for `run_finetuning`; `overrides` as for `add_flags`."""
    own = {"init": {"required": True}, "epochs": {"default": 3}, "learning_rate": {"default": 5e-5}}
    own["warmup_share"] = {"default": 0.1, "help": "share of the steps in which the learning rate rises"}
    add_flags(
        parser,
        *("init", "output", "epochs", "steps", "batch-size", "learning-rate", "warmup-share", "weight-decay"),
        *("sequence-length", "seed", "keep"),
        *("evaluate-every", "patience", "dropout", "bias-correction", "layer-decay", "lora-rank"),
        *("accumulate", "group-by-length"),
        *("bilstm", "random-weights", "checkpoint-every", *MACHINE, "xla"),
        *("log-dir", "profile", "json", "overwrite", "dry-run"),
        **{name: own.get(name, {}) | overrides.get(name, {}) for name in own | overrides},
    )


def finetuning_options(arguments: argparse.Namespace) -> dict:
    """The flags of `add_finetuning_flags`, as `kbert.finetune` takes them."""
    from kbert.finetuning.finetuning_options import FinetuningOptions

    names = {field.name for field in dataclasses.fields(FinetuningOptions)} | {"log_dir", "profile", "overwrite"}
    return {name: value for name, value in vars(arguments).items() if name in names}


def read_train_and_dev(arguments: argparse.Namespace, task):
    """--train, of which --train-sentences may take the first, and --dev or a share of --train, for all --seed alike."""
    train = task.read(arguments.train)
    train, dev = (train, task.read(arguments.dev)) if arguments.dev else train.split(arguments.dev_share)
    first = getattr(arguments, "train_sentences", None)
    return train.take(range(first)) if first else train, dev


def run_finetuning(arguments: argparse.Namespace, recipe: str, read):
    """`kbert.finetune` with the flags of `add_finetuning_flags`; None if --dry-run only estimates the run.

    Args:
        recipe: file name of the recipe.
        read: function of the arguments that returns task, training examples and dev examples. Errors in these, in the
            model or in --output are printed as one line; errors in training keep their traceback.
    """
    from kbert.finetuning.finetuning import Finetuning
    from kbert.training.dry_run import format_estimate

    with plain_errors():
        task, train, dev = read(arguments)
        options = finetuning_options(arguments)
        finetuning = Finetuning(arguments.init, task, train, dev, arguments.output, recipe=recipe, **options)
        if arguments.dry_run:
            print(format_estimate(finetuning.estimate()))
            return None
        finetuning.open()
    return finetuning.run()


def report_finetuning(arguments: argparse.Namespace, metrics: dict) -> None:
    """Prints where the model is and how long it took; with --json the metrics as the last line."""
    print(f"{metrics['minutes']:.1f} minutes; the model is in {arguments.output / 'model'}")
    if arguments.json:
        print(json.dumps(metrics))
