"""What the quickstart's scores say, and where to look next."""

import pathlib
from collections.abc import Mapping

from kbert.quickstart.finetune_both import describe_accuracies
from kbert.tasks.pretraining.table import describe_scores


def describe_results(metrics: Mapping, output) -> str:
    """The end of the quickstart, for printing."""
    output = pathlib.Path(output)
    which = "Which library is this sentence about?"
    lines = [f"\n{describe_scores(metrics['pretraining'])}\n"]
    lines.append(describe_accuracies(which, metrics["majority_accuracy"], metrics["accuracy"]))
    if "shipped" in metrics:
        lines.append(describe_accuracies("Are the words of a sentence in order?", 0.5, metrics["shipped"]["accuracy"]))
    return "\n".join(
        [
            *lines,
            f"\nDone in {metrics['minutes']:.1f} minutes; everything is in {output}.",
            f"See how it learned:  tensorboard --logdir {output}",
            "  Time Series has training, test and baseline in one chart: how far the pre-training gets from token "
            "frequencies alone, and where a fine-tuning learns its few sentences by heart instead of the task.",
            f"Look inside:         {output / 'inspection' / 'report.html'}",
            "Your own text next:  docs/quickstart.md, docs/pretraining.md",
        ]
    )
