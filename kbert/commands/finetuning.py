"""Commands that fine-tune: on a task, on GLUE."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import kbert
from kbert.cli import Command
from kbert.finetuning.finetune import FinetunedRun, finetune
from kbert.finetuning.grid import finetune_glue
from kbert.pipelines.registry import task_class, task_names


def task_classes() -> Mapping[str, Callable]:
    """By the word that comes first: what makes the task object."""
    classes = {word: task_class(word) for word in task_names()}
    return {word: task for word, task in classes.items() if task.is_finetuned} | {"glue": kbert.tasks.glue}


def report_finetuned(run: FinetunedRun) -> None:
    """Prints the scores beside those of a constant answer, and where the model is; of a dry run the estimate."""
    metrics = run.metrics
    if "seconds_per_step" in metrics:
        from kbert.training.dry_run import format_estimate

        print(format_estimate(metrics))
        return
    constant = metrics.get("constant_answer", {})
    dev = metrics.get("dev", {})
    for name, value in dev.items():
        if isinstance(value, float) and name != "loss":
            print(f"{name}: {value:.4f}" + (f"  (constant answer: {constant[name]:.4f})" if name in constant else ""))
    for line in describe_groups(dev):
        print(line)
    where = "" if run.path is None else f"; the model is in {run.path / 'model'}"
    print(f"{metrics['minutes']:.1f} minutes{where}")


_GROUPS = 30  # labels whose scores are printed
_NAME_WIDTH = 40  # characters of their names


def report_scores(scores: Mapping[str, Any]) -> None:
    """Prints scores; those of each label or entity type come last."""
    for name, value in scores.items():
        if not isinstance(value, Mapping):
            print(f"{name}: {_shown(value)}")
    for line in describe_groups(scores):
        print(line)


def describe_groups(scores: Mapping) -> list[str]:
    """The lines of a table with the scores of each label, or of each type of entities."""
    lines = []
    for groups in scores.values():
        if not isinstance(groups, Mapping) or not groups:
            continue
        first = dict(itertools.islice(groups.items(), _GROUPS))
        width = max(len(name[:_NAME_WIDTH]) for name in first)
        header = next(iter(first.values()))
        lines.append(" " * width + "".join(f"  {name}" for name in header))
        for name, values in first.items():
            cells = (f"  {_shown(value):>{len(column)}}" for column, value in values.items())
            lines.append(f"{name[:_NAME_WIDTH]:<{width}}" + "".join(cells))
        if len(groups) > len(first):
            lines.append(f"and {len(groups) - len(first):,} more")
    return lines


def _shown(value: float) -> str:
    return f"{value}" if isinstance(value, int) else f"{value:.4f}"


def report_glue(result: Mapping[str, Any]) -> None:
    """Prints the tables of `finetune_glue`, beside the paper's; of a dry run what is left to do."""
    if "average" not in result:
        from kbert.training.dry_run import format_estimate

        for name, left in result["tasks"].items():
            print(f"{name}: {left['runs']} runs left")
            if left["first"] is not None:
                print(format_estimate(left["first"]))
        return
    from kbert.tasks.glue_benchmark.tasks import describe_all

    print(describe_all(result))


COMMANDS = {
    "finetune": Command(
        verb=finetune,
        tasks=task_classes,
        report=report_finetuned,
        as_json=lambda run: run.metrics,
        resumes=True,
        epilog="""
        kbert finetune classification --source google-bert/bert-base-uncased --train reviews.csv --label stars \\
            --dev 0.1 --output runs/reviews
        kbert finetune glue --name SST-2 --source saved_models/kbert-tiny --train glue --dev glue --output runs/sst2
        kbert finetune span --source runs/triviaqa --train train-v2.0.json --dev dev-v2.0.json --output runs/squad
        """,
    ),
    "glue": Command(
        verb=finetune_glue,
        report=report_glue,
        as_json=dict,
        resumes=True,
        epilog="""
        kbert glue --source saved_models/kbert-tiny --directory glue --output runs/glue \\
            --learning-rates 1e-4 3e-4 1e-3 --seeds 0 1 2
        """,
    ),
}
