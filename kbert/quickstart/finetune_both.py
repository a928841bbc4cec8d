"""A model and random weights of its architecture, fine-tuned alike with several seeds."""

import itertools
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from kbert.tasks.finetune import finetune
from kbert.tasks.finetuned_run import FinetunedRun

_RANDOM = "random weights"


def finetune_both(
    init, task, train, dev, output, *, name: str = "pre-trained", seeds: Sequence[int] = (0, 1, 2), **options
) -> dict[str, list[FinetunedRun]]:
    """Fine-tunes a model and random weights of its architecture, and keeps the last weights of each run.

    Args:
        init, task, train, dev: see `kbert.finetune`.
        output: directory; each run has a folder, such as ``pre-trained-0`` and ``random-weights-0``.
        seeds: of the fine-tunings.
        **options: further options of `kbert.finetune`.

    Returns:
        dict: name → the runs of all seeds.
    """
    runs = {name: [], _RANDOM: []}
    for seed, (start, found) in itertools.product(seeds, runs.items()):
        where = pathlib.Path(output) / f"{start.replace(' ', '-')}-{seed}"
        own = {"seed": seed, "random_weights": start == _RANDOM, "keep": "last"}
        found.append(finetune(init, task, train, dev, where, **options | own))
    return runs


def accuracies(runs: Mapping[str, Sequence[FinetunedRun]]) -> dict[str, list[float]]:
    """name → the accuracy of each seed on dev."""
    return {name: [one.metrics["dev"]["accuracy"] for one in each] for name, each in runs.items()}


def describe_accuracies(question: str, majority: float, accuracies: Mapping[str, Sequence[float]]) -> str:
    """Mean and deviation over several seeds as a table, the best model last, for printing.

    Args:
        question: what the models were asked.
        majority: accuracy of always giving the most frequent answer.
        accuracies: {model: accuracy of each seed}, at least two.
    """
    lines = [f"{question} (accuracy on modules never seen)"]
    lines.append(f"  {'majority class':16s} {majority:6.1%}")
    for name, each in sorted(accuracies.items(), key=lambda item: statistics.mean(item[1])):
        mean, deviation = statistics.mean(each), statistics.stdev(each)
        lines.append(f"  {name:16s} {mean:6.1%}  ± {deviation:.1%} over {len(each)} seeds")
    return "\n".join(lines)
