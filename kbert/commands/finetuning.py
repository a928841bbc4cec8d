"""Commands that fine-tune: on a task, on GLUE."""

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
    from kbert.finetuning.run_evaluation import describe_groups

    constant = metrics.get("constant_answer", {})
    dev = metrics.get("dev", {})
    for name, value in dev.items():
        if isinstance(value, float) and name != "loss":
            print(f"{name}: {value:.4f}" + (f"  (constant answer: {constant[name]:.4f})" if name in constant else ""))
    for line in describe_groups(dev):
        print(line)
    where = "" if run.path is None else f"; the model is in {run.path / 'model'}"
    print(f"{metrics['minutes']:.1f} minutes{where}")


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
