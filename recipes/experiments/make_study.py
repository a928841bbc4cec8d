"""A study of the paper's tables by flags."""

import argparse

from experiments.downstream import NER, SQUAD
from experiments.named_tasks import named_tasks
from experiments.study import Study
from kbert.tasks.features.train import FeatureTraining


def make_study(arguments: argparse.Namespace, recipe: str) -> Study:
    """The `Study` that the flags of recipes/ablations.py describe."""
    words = [*arguments.tasks, *([NER] if arguments.ner else []), *([SQUAD] if arguments.squad else [])]
    if limit := arguments.train_examples:  # of the tasks that have no limits of their own
        words = [word if ":" in word else f"{word}:{limit}" for word in words]
    tasks = named_tasks(words, glue=arguments.glue, ner=arguments.ner, squad=arguments.squad)
    names = ("vocabulary", "size", "steps", "hours", "settings", "held_out", "seed")
    pretraining = {name: getattr(arguments, name) for name in names}
    pretraining |= {"batch_size": arguments.pretraining_batch_size, "sequence_length": arguments.pretraining_length}
    pretraining |= {"precision": arguments.pretraining_precision, "learning_rate": arguments.pretraining_learning_rate}
    names = ("epochs", "batch_size", "sequence_length", "dropout", "bias_correction")
    features = {"epochs": arguments.feature_epochs, "units": arguments.feature_units, "evaluate_every": None}
    return Study(
        arguments.records or arguments.corpus,
        arguments.output,
        tasks,
        pretraining={name: value for name, value in pretraining.items() if value is not None},
        seeds=range(arguments.seed, arguments.seed + arguments.restarts),
        rates=arguments.learning_rate,
        finetuning={name: getattr(arguments, name) for name in names},
        feature_training=FeatureTraining(**features),
        recipe=recipe,
    )
